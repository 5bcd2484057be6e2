"""Starts fake-gcs-server for the tests of this folder, and makes a bucket for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud.storage import Bucket

from devstack.connection import Connection
from testkit.local_servers import start_fake_gcs


@pytest.fixture(scope="session")
def storage_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_fake_gcs(Path(tmp_path_factory.mktemp("storage"))) as address:
        yield f"http://{address}"


@pytest.fixture
def connection(storage_url: str) -> Connection:
    return Connection(storage_url, bigquery_url="http://127.0.0.1:1", airflow_url="http://127.0.0.1:1")


@pytest.fixture
def bucket(connection: Connection, request: pytest.FixtureRequest) -> Bucket:
    """A bucket of the test's own."""
    name = f"test-{abs(hash(request.node.nodeid)):x}"
    return connection.storage_client().create_bucket(name)
