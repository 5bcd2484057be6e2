"""A world for each test: its own feed on servers that are shared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.settings.feed import Feed, read_feed
from tests.contract.publish.feed_world import REPOSITORY, FeedWorld
from tests.processes import start_fake_gcs, start_stand_in

_numbers = itertools.count(1)
# All tests share one status table, which BigQuery lets change five times in ten seconds.
RAPID = ("--updates-per-10-s", "1000")


@contextmanager
def open_clients(folder: Path) -> Iterator[tuple[Storage, BigQuery]]:
    """Clients of an object store and a stand-in of their own, with the buckets and the dataset made."""
    with start_fake_gcs(folder) as gcs, start_stand_in(folder, gcs, options=RAPID) as bigquery:
        storage = Storage(
            project="local-dev",
            credentials=AnonymousCredentials(),
            client_options=ClientOptions(api_endpoint=f"http://{gcs}"),
        )
        warehouse = BigQuery(
            project="local-dev",
            credentials=AnonymousCredentials(),
            client_options=ClientOptions(api_endpoint=f"http://{bigquery}"),
        )
        for bucket in ("landing", "state"):
            storage.create_bucket(bucket)
        warehouse.create_dataset("warehouse")
        yield storage, warehouse


def new_feed() -> Feed:
    """A feed that no other test has."""
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
    name = f"feed_{next(_numbers)}"
    landing = shipped.landing.model_copy(update={"prefix": name})
    return shipped.model_copy(update={"feed": name, "landing": landing})


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("servers")) as shared:
        yield shared


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedWorld:
    return FeedWorld(new_feed(), *clients)
