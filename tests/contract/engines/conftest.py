"""Starts one fake-gcs-server and one stand-in for the tests of this folder. Each test makes a feed of its own.

Tests that advance the stand-in's clock, so that it applies streamed changes, share another pair of servers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.server_clients import control_of, open_clients
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup


@pytest.fixture(scope="session")
def clients_of_moved_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("moved-clock")) as shared:
        yield shared


@pytest.fixture
def streaming_clients(
    clients_of_moved_clock: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch
) -> tuple[Storage, BigQuery]:
    """Clients of the servers whose clock tests advance. Rows are streamed to the same stand-in."""
    monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", control_of(clients_of_moved_clock[1]).write_api())
    return clients_of_moved_clock
