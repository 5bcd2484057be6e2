"""A world for each test: its own feed on servers that are shared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
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


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    folder: Path = tmp_path_factory.mktemp("servers")
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


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedWorld:
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
    name = f"feed_{next(_numbers)}"
    landing = shipped.landing.model_copy(update={"prefix": name})
    feed: Feed = shipped.model_copy(update={"feed": name, "landing": landing})
    return FeedWorld(feed, *clients)
