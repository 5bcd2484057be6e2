"""The local servers, and the environment of the programs of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud import bigquery

from testkit.foreign_programs import BIN, Servers
from testkit.local_servers import start_fake_gcs, start_stand_in
from tests.shared.stand_in_client import bigquery_client


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    if not BIN.is_dir():
        pytest.fail("The programs of others are not installed: run `make foreign-setup`.")
    folder = tmp_path_factory.mktemp("servers")
    # Their statements take longer on BigQuery than here, where they would exceed its limit.
    fast = ("--updates-per-10-s", "1000")
    with start_fake_gcs(folder, "lake") as storage, start_stand_in(folder, storage, *fast) as address:
        yield Servers(address, storage)


@pytest.fixture(scope="session")
def client(servers: Servers) -> bigquery.Client:
    return bigquery_client(servers.bigquery)
