"""One object store and one stand-in for all tests of the engines; each test has a feed of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from tests.contract.publish.servers import open_clients

SQL_ENGINES = [Engine.BIGQUERY, Engine.MERGE]


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("servers")) as shared:
        yield shared


@pytest.fixture(params=SQL_ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found
