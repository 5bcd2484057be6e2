"""Sessions of concurrent jobs are isolated, although all share one DuckDB, and return only what BigQuery has."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.jobs.duckdb_session import DuckDbSession


def rows_of(session: DuckDbSession, sql: str) -> list[dict[str, object]]:
    return session.run(sql)[1].to_pylist()


def test_registered_rows_and_temporary_tables_are_a_sessions_own() -> None:
    first, second = DuckDbSession(threading.Event()), DuckDbSession(threading.Event())
    names = [session.register(pa.table({"a": [value]})) for session, value in ((first, 1), (second, 2))]
    assert names[0] == names[1]
    tables = [session.materialize(f"SELECT a + 10 AS a FROM {names[0]}") for session in (first, second)]
    assert [rows_of(session, f"SELECT a FROM {tables[0]}") for session in (first, second)] == [[{"a": 11}], [{"a": 12}]]
    first.close()
    assert rows_of(second, f"SELECT a FROM {tables[1]}") == [{"a": 12}]
    second.close()


def test_a_session_that_is_interrupted_does_not_affect_others() -> None:
    first, second = DuckDbSession(threading.Event()), DuckDbSession(threading.Event())
    first.interrupt()
    first.close()
    assert rows_of(second, "SELECT 1 AS a") == [{"a": 1}]
    second.close()


@pytest.mark.parametrize(
    "value",
    [
        "DATE '9999-12-31' + 1",
        "DATE '0001-01-01' - 1",
        "CAST('infinity' AS DATE)",
        "TIMESTAMP '9999-12-31 23:59:59' + INTERVAL 1 SECOND",
    ],
)
def test_a_year_that_bigquery_has_not_fails_the_query(value: str) -> None:
    session = DuckDbSession(threading.Event())
    with pytest.raises(InvalidQuery, match="outside of the years 1 to 9999"):
        session.run(f"SELECT {value} AS day")
    assert session.run("SELECT DATE '9999-12-31', DATE '0001-01-01', NULL::DATE")[1].num_rows == 1
    session.close()
