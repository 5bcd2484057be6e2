"""Streamed rows: queries see them at once; everything else, once they have left the streaming buffer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.bigquery_standin.warehouse import Warehouse
from tests.shared.write_api_client import days_since_epoch

COPY = "CREATE OR REPLACE TABLE d.c CLONE d.t"


@pytest.fixture
def today(warehouse: Warehouse) -> date:
    """The stand-in's date, which just began: no test passes midnight. Its table has the row 1 of yesterday."""
    now = warehouse.now()
    warehouse.advance(hours=24 - now.hour, minutes=-now.minute, seconds=-now.second)
    warehouse.job("CREATE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    warehouse.job("INSERT d.t VALUES (DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY), 1)")
    return warehouse.now().date()


def stream(warehouse: Warehouse, *ids: int, table: str = "d.t") -> None:
    day = days_since_epoch(warehouse.now().date())
    response = warehouse.append(table, {"day": "int32", "id": "int64"}, *({"day": day, "id": number} for number in ids))
    assert not response.error.message


def ids(warehouse: Warehouse, table: str = "d.t") -> list[int]:
    return [number for (number,) in warehouse.rows(f"SELECT id FROM {table} ORDER BY id")]


def buffered(warehouse: Warehouse) -> int | None:
    found = warehouse.client.get_table("d.t").streaming_buffer
    return found.estimated_rows if found else None


def partitions(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    view = "d.INFORMATION_SCHEMA.PARTITIONS WHERE table_name = 't'"
    return warehouse.rows(f"SELECT partition_id, total_rows FROM {view} ORDER BY partition_id")


def test_rows_are_in_queries_and_minutes_later_in_clones_sizes_and_lists(warehouse: Warehouse, today: date) -> None:
    yesterday = today - timedelta(days=1)
    warehouse.job("INSERT d.t VALUES (DATE '1959-12-31', 0)")
    stream(warehouse, 2, 3)
    warehouse.restart()
    assert ids(warehouse) == [0, 1, 2, 3]
    warehouse.job(COPY)
    assert ids(warehouse, "d.c") == [0, 1]
    assert len(warehouse.stored("d.t")) == warehouse.client.get_table("d.t").num_rows == 2
    assert warehouse.client.get_table("d.t").num_bytes == 32
    assert warehouse.job("SELECT id FROM d.t").total_bytes_processed == 16
    assert buffered(warehouse) == 2
    # "PARTITIONS view": rows of days without a partition are in the same row.
    assert partitions(warehouse) == [(f"{yesterday:%Y%m%d}", 1), ("__UNPARTITIONED__", 3)]
    warehouse.advance(minutes=4)
    stream(warehouse, 4)
    warehouse.advance(minutes=1)
    assert buffered(warehouse) == 1
    warehouse.advance(minutes=5)
    assert (buffered(warehouse), len(warehouse.stored("d.t"))) == (None, 5)
    assert (f"{today:%Y%m%d}", 3) in partitions(warehouse)
    warehouse.job(COPY)
    assert ids(warehouse, "d.c") == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("today")
def test_the_past_has_the_rows_that_had_been_streamed_by_then(warehouse: Warehouse) -> None:
    stream(warehouse, 2)
    past = f"d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{warehouse.now()}'"
    warehouse.advance(minutes=5)
    warehouse.job(f"DELETE FROM d.t WHERE TRUE; CREATE TABLE d.c CLONE {past}")
    assert (ids(warehouse, past), ids(warehouse, "d.c")) == ([1, 2], [1])


def test_dml_that_changes_buffered_rows_is_refused_and_other_dml_keeps_them(warehouse: Warehouse, today: date) -> None:
    stream(warehouse, 2, 3)
    for sql in ("UPDATE d.t SET id = 20 WHERE id = 2", "DELETE FROM d.t WHERE id = 3"):
        reason, message = warehouse.refusal(sql)
        assert (reason, "streaming buffer" in message) == ("notImplemented", True)
    warehouse.job(
        "MERGE d.t USING (SELECT 1 AS key) ON id = key WHEN MATCHED THEN UPDATE SET id = 10 "
        f"WHEN NOT MATCHED THEN INSERT (day, id) VALUES (DATE '{today}', 5)"
    )
    assert (ids(warehouse), buffered(warehouse)) == ([2, 3, 10], 2)


@pytest.mark.usefixtures("today")
def test_whole_replacements_end_the_buffer_truncate_is_refused_and_other_changes_keep_it(warehouse: Warehouse) -> None:
    stream(warehouse, 2)
    reason, message = warehouse.refusal("TRUNCATE TABLE d.t")
    assert (reason, "streaming buffer" in message) == ("invalidQuery", True)
    warehouse.job("INSERT d.t VALUES (CURRENT_DATE(), 3); ALTER TABLE d.t SET OPTIONS (description = 'x')")
    assert (ids(warehouse), buffered(warehouse)) == ([1, 2, 3], 1)
    warehouse.job("CREATE OR REPLACE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    assert ids(warehouse) == []
    stream(warehouse, 4)
    warehouse.job("DROP TABLE d.t; CREATE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    assert ids(warehouse) == []
    stream(warehouse, 5)
    warehouse.advance(minutes=5)
    warehouse.job("TRUNCATE TABLE d.t")
    assert ids(warehouse) == []


LAST_MICROSECOND = 253_402_300_799_999_999  # of the year 9999
LARGEST = "9" * 29 + "." + "9" * 9


REFUSED = object()


@pytest.mark.parametrize(
    ("column", "kind", "sent", "expected"),
    [
        ("DATE", "int32", -719_162, date.min),
        ("DATE", "int32", -719_163, REFUSED),
        ("DATE", "int64", 2_932_896, date.max),
        ("DATE", "int64", 2_932_897, REFUSED),
        ("DATETIME", "string", "2026-01-01T00:00:00Z", REFUSED),
        ("TIMESTAMP", "int64", -62_135_596_800_000_000, datetime(1, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", "int64", LAST_MICROSECOND, datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("TIMESTAMP", "int64", LAST_MICROSECOND + 1, REFUSED),
        ("NUMERIC", "string", LARGEST, Decimal(LARGEST)),
        ("NUMERIC", "string", "1" + "0" * 29, REFUSED),
        ("NUMERIC", "string", "0.0000000005", Decimal("0.000000001")),
        ("INT64 NOT NULL", "int64", None, REFUSED),
        ("NUMERIC", "string", "nan", REFUSED),
        ("BOOL", "bool", True, True),
        ("BYTES", "bytes", b"\xff", b"\xff"),
        ("INT64", "int64", -(2**63), -(2**63)),
        ("FLOAT64", "double", 0.5, 0.5),
        ("STRING", "string", "", ""),
    ],
)
def test_a_value_is_converted_or_refused(
    warehouse: Warehouse, column: str, kind: str, sent: Any, expected: Any
) -> None:
    """ "Supported protocol buffer and Arrow data types": values at the bounds of the types."""
    warehouse.job(f"CREATE TABLE d.t (v {column})")
    answer = warehouse.append("d.t", {"v": kind}, {} if sent is None else {"v": sent})
    assert answer.error.code == (3 if expected is REFUSED else 0)
    assert warehouse.rows("SELECT v FROM d.t") == ([] if expected is REFUSED else [(expected,)])


@pytest.mark.parametrize(
    ("column", "kind"), [("TIMESTAMP", "string"), ("INT64", "int32"), ("BYTES", "string"), ("STRUCT<a INT64>", "int64")]
)
def test_another_type_of_a_field_is_refused(warehouse: Warehouse, column: str, kind: str) -> None:
    warehouse.job(f"CREATE TABLE d.t (v {column})")
    answer = warehouse.append("d.t", {"v": kind}, {})
    assert (answer.error.code, "does not carry out" in answer.error.message) == (12, True)  # UNIMPLEMENTED
