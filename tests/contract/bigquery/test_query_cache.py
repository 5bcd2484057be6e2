"""Cached results, rule by rule. Source: "Using cached query results"."""

from __future__ import annotations

import pytest
from google.cloud import bigquery

from tests.shared.stand_in_client import STAND_IN_USER, TODAY, load_rows, make_table


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(TODAY, key, 1) for key in range(10)])
    return f"{dataset}.t"


def ask(client: bigquery.Client, sql: str, **settings: object) -> tuple[bool, int, list[tuple[object, ...]]]:
    """Whether it was a cache hit, the bytes processed, and the rows."""
    job = client.query(sql, job_config=bigquery.QueryJobConfig(**settings))
    rows = [tuple(row.values()) for row in job.result()]
    job.reload()
    return bool(job.cache_hit), job.total_bytes_processed or 0, rows


def test_the_same_query_over_an_unchanged_table_is_answered_for_nothing(client: bigquery.Client, table: str) -> None:
    sql = f"SELECT SUM(id) FROM {table}"
    assert ask(client, sql) == (False, 80, [(45,)])
    assert ask(client, sql) == (True, 0, [(45,)])


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO {table} (day, id, number) VALUES (CURRENT_DATE(), 100, 1)",
        "UPDATE {table} SET id = id + 10 WHERE TRUE",
        "TRUNCATE TABLE {table}",
        "CREATE OR REPLACE TABLE {table} (day DATE, id INT64, number INT64) PARTITION BY day CLUSTER BY id",
    ],
)
def test_a_changed_table_is_read_again(client: bigquery.Client, table: str, change: str) -> None:
    sql = f"SELECT COUNT(*), SUM(id) FROM {table}"
    ask(client, sql)
    client.query_and_wait(change.format(table=table))
    hit, _, rows = ask(client, sql)
    assert not hit
    assert rows != [(10, 45)]


def test_a_table_that_is_replaced_by_a_clone_is_read_again(client: bigquery.Client, table: str, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.c CLONE {table}")
    sql = f"SELECT COUNT(*) FROM {dataset}.c"
    assert ask(client, sql)[2] == [(10,)]
    client.query_and_wait(f"INSERT INTO {table} (day, id, number) VALUES (CURRENT_DATE(), 100, 1)")
    assert ask(client, sql)[0]
    client.query_and_wait(f"CREATE OR REPLACE TABLE {dataset}.c CLONE {table}")
    assert ask(client, sql) == (False, 0, [(11,)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), CURRENT_TIMESTAMP() > TIMESTAMP '2026-01-01' FROM {table}",
        "SELECT COUNT(*) FROM {table} FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP()",
        "SELECT COUNT(*) FROM {dataset}.INFORMATION_SCHEMA.TABLES",
    ],
)
def test_what_may_answer_otherwise_is_never_cached(client: bigquery.Client, dataset: str, table: str, sql: str) -> None:
    for _ in range(2):
        assert not ask(client, sql.format(table=table, dataset=dataset))[0]


@pytest.mark.parametrize("has_policy", [False, True])
def test_a_table_with_a_row_policy_is_never_answered_from_the_cache(
    client: bigquery.Client, table: str, has_policy: bool
) -> None:
    """ "Using cached query results", exceptions to query caching."""
    if has_policy:
        client.query_and_wait(
            f"CREATE ROW ACCESS POLICY everything ON {table} GRANT TO ('{STAND_IN_USER}') FILTER USING (TRUE)"
        )
    found = [ask(client, f"SELECT SUM(id) FROM {table}")[0] for _ in range(2)]
    assert found == [False, not has_policy]


def test_the_cache_can_be_left_out(client: bigquery.Client, table: str) -> None:
    sql = f"SELECT SUM(id) FROM {table}"
    ask(client, sql)
    assert ask(client, sql, use_query_cache=False) == (False, 80, [(45,)])


def test_other_parameters_are_another_query(client: bigquery.Client, table: str) -> None:
    sql = f"SELECT COUNT(*) FROM {table} WHERE id < @limit"
    for limit in (3, 5):
        parameter = bigquery.ScalarQueryParameter("limit", "INT64", limit)
        assert ask(client, sql, query_parameters=[parameter]) == (False, 80, [(limit,)])
