"""Another pair of servers for tests that advance the stand-in's clock, so that it applies streamed changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.server_clients import control_of, empty_buckets, open_clients


@pytest.fixture(scope="session")
def clients_of_moved_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("moved-clock")) as shared:
        yield shared


@pytest.fixture
def streaming_clients(
    clients_of_moved_clock: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch
) -> tuple[Storage, BigQuery]:
    """Clients of the servers whose clock tests advance. Rows are streamed to the same stand-in."""
    empty_buckets(clients_of_moved_clock[0])
    monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", control_of(clients_of_moved_clock[1]).write_api())
    return clients_of_moved_clock
