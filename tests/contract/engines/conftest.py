"""One object store and one stand-in for all tests of the engines; each test has a feed of its own."""

from __future__ import annotations

import pytest

from dedup_clone.contract.engine import Engine
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup

SQL_ENGINES = [Engine.BIGQUERY, Engine.MERGE]


@pytest.fixture(params=SQL_ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found
