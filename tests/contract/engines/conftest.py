"""One object store and one stand-in for all tests of the engines; each test has a feed of its own."""

from __future__ import annotations

import pytest

from dedup_clone.contract.engine import Engine, SqlForm
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup

SQL_ENGINES = [Engine.BIGQUERY, Engine.MERGE]
SQL_STATEMENTS = [*((Engine.BIGQUERY, form) for form in SqlForm), (Engine.MERGE, SqlForm.QUALIFY)]


@pytest.fixture(params=SQL_ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


@pytest.fixture(params=SQL_STATEMENTS, ids=lambda statement: "-".join(statement))
def statement(request: pytest.FixtureRequest) -> tuple[Engine, SqlForm]:
    """An engine in SQL, and the feed's form, which engine `merge` does not use."""
    found: tuple[Engine, SqlForm] = request.param
    return found
