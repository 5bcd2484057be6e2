"""An object store and a stand-in of their own, and clients of both: for tests, and for the long runs with readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from tests.contract.publish.real_dedup import RealDedup
from tests.processes import start_fake_gcs, start_stand_in

# All tests share one status table, which BigQuery lets change five times in ten seconds.
RAPID = ("--updates-per-10-s", "1000")


def bigquery_client(url: str) -> BigQuery:
    """One more client of the stand-in at `url`."""
    options = ClientOptions(api_endpoint=url)
    return BigQuery(project="local-dev", credentials=AnonymousCredentials(), client_options=options)


@contextmanager
def open_clients(folder: Path) -> Iterator[tuple[Storage, BigQuery]]:
    """Clients of servers that keep everything below `folder`, with the buckets and the dataset made."""
    with start_fake_gcs(folder) as gcs, start_stand_in(folder, gcs, options=RAPID) as bigquery:
        options = ClientOptions(api_endpoint=f"http://{gcs}")
        storage = Storage(project="local-dev", credentials=AnonymousCredentials(), client_options=options)
        warehouse = bigquery_client(f"http://{bigquery}")
        for bucket in ("landing", "state"):
            storage.create_bucket(bucket)
        warehouse.create_dataset("warehouse")
        yield storage, warehouse


@pytest.fixture(scope="session", name="clients")
def shared_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    """For the conftest of a folder that takes it in: servers of its own, shared by the folder's tests."""
    with open_clients(tmp_path_factory.mktemp("servers")) as shared:
        yield shared


@pytest.fixture(scope="session", name="real_dedup")
def shared_real_dedup(clients: tuple[Storage, BigQuery]) -> Iterator[RealDedup]:
    """The real job over those servers, in a process that is shared as they are."""
    with RealDedup(clients[0]) as shared:
        yield shared
