"""tabledata.insertAll through google-cloud-bigquery.

Pages of BigQuery's documentation: REST method tabledata.insertAll; Quotas and limits; Error messages.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from tests.shared.stand_in_client import PROJECT, TODAY, Control, days_ago, make_table, rows_of

DAY = TODAY.isoformat()


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    make_table(client, f"{dataset}.t")
    return f"{dataset}.t"


def insert(client: bigquery.Client, table: str, rows: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """The errors by row. Rows have no insertId unless `row_ids` is given."""
    options.setdefault("row_ids", [None] * len(rows))
    found: list[dict[str, Any]] = list(client.insert_rows_json(f"{PROJECT}.{table}", rows, **options))
    return found


def ids(client: bigquery.Client, table: str) -> list[int]:
    return [found for (found,) in rows_of(client, f"SELECT id FROM {table} ORDER BY id")]


def reasons(errors: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(error["index"], error["errors"][0]["reason"]) for error in errors]


def test_rows_are_queried_at_once_and_leave_the_buffer_after_half_an_hour(
    client: bigquery.Client, control: Control, table: str
) -> None:
    assert insert(client, table, [{"day": DAY, "id": 1, "number": "7"}, {"id": 2}]) == []
    assert rows_of(client, f"SELECT * FROM {table} ORDER BY id") == [(TODAY, 1, 7), (None, 2, None)]
    found = client.get_table(table)
    assert (found.num_rows, found.streaming_buffer.estimated_rows) == (0, 2)
    with pytest.raises(exceptions.BadRequest, match="would affect rows in the streaming buffer"):
        client.query(f"DELETE FROM {table} WHERE id = 1").result()
    control.advance(minutes=30)
    found = client.get_table(table)
    assert (found.num_rows, found.streaming_buffer) == (2, None)
    client.query(f"DELETE FROM {table} WHERE id = 1").result()
    assert ids(client, table) == [2]


def test_one_wrong_row_stops_all_rows(client: bigquery.Client, table: str) -> None:
    errors = insert(client, table, [{"id": 1}, {"id": 1.5}, {"other": 2}])
    assert reasons(errors) == [(0, "stopped"), (1, "invalid"), (2, "invalid")]
    assert "other" in errors[2]["errors"][0]["message"]
    assert ids(client, table) == []


def test_wrong_rows_are_skipped_on_request(client: bigquery.Client, table: str) -> None:
    wrong = [{"id": "x"}, {"id": 2**63}, {"id": 3, "other": 1}, {"id": 4, "day": days_ago(3700).isoformat()}]
    errors = insert(client, table, [{"id": 1}, *wrong], skip_invalid_rows=True)
    assert reasons(errors) == [(1, "invalid"), (2, "invalid"), (3, "invalid"), (4, "invalid")]
    assert ids(client, table) == [1]


def test_unknown_values_are_ignored_on_request(client: bigquery.Client, table: str) -> None:
    assert insert(client, table, [{"id": 1, "other": 1}], ignore_unknown_values=True) == []
    assert ids(client, table) == [1]


def test_a_row_needs_the_required_columns(client: bigquery.Client, dataset: str) -> None:
    client.query(f"CREATE TABLE {dataset}.t (id INT64 NOT NULL, s STRING)").result()
    (error,) = insert(client, f"{dataset}.t", [{"s": "a"}])
    assert error["errors"][0]["message"] == "Missing required field: id"


def test_an_insert_id_is_recognised_for_a_minute(client: bigquery.Client, control: Control, table: str) -> None:
    for row_ids in (["a", "a", "b"], ["b", "a", "c"]):
        insert(client, table, [{"id": 1}, {"id": 1}, {"id": 2}], row_ids=row_ids)
    assert ids(client, table) == [1, 2, 2]
    control.advance(minutes=1)
    insert(client, table, [{"id": 1}], row_ids=["a"])
    assert ids(client, table) == [1, 1, 2, 2]


def test_limits_of_a_request(client: bigquery.Client, dataset: str) -> None:
    client.query(f"CREATE TABLE {dataset}.t (s STRING)").result()
    table = f"{dataset}.t"
    with pytest.raises(exceptions.BadRequest, match="No rows present"):
        insert(client, table, [])
    with pytest.raises(exceptions.BadRequest, match="limit: 50000 row count: 50001"):
        insert(client, table, [{}] * 50_001)
    with pytest.raises(exceptions.BadRequest, match="payload size exceeds the limit"):
        insert(client, table, [{"s": "x" * 10_000_000}])
    with pytest.raises(exceptions.BadRequest, match="more than 128 characters"):
        insert(client, table, [{"s": "a"}], row_ids=["i" * 129])
    assert insert(client, table, [{"s": "x" * 9_000_000}], row_ids=["i" * 128]) == []


def test_template_tables_and_partition_decorators_are_refused(client: bigquery.Client, table: str) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="templateSuffix"):
        insert(client, table, [{"id": 1}], template_suffix="_x")
    with pytest.raises(exceptions.MethodNotImplemented, match="streaming into the partition"):
        insert(client, f"{table}${TODAY:%Y%m%d}", [{"id": 1}])
    with pytest.raises(exceptions.NotFound, match="Not found: Table"):
        insert(client, f"{table}_none", [{"id": 1}])
