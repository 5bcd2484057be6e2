"""The demo: the table that it expects of snapshots, how it compares tables, and what it reads of a publish."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.cloud.storage import Bucket

from dedup_clone.contract.delivery import Delivery
from devstack.demo import before_and_after, delivery_progress, ledger_record
from devstack.demo.airflow_api import DemoError, Task
from devstack.demo.before_and_after import RowChange
from devstack.demo.expected_table import expected_table
from devstack.demo.table_comparison import compare
from devstack.producer import landing
from devstack.producer.demo_feeds import SCHEMA

Row = tuple[int, int | None, int]


def table(*rows: Row) -> pa.Table:
    """Rows given as product, value, snapshot id."""
    day = date(2026, 3, 1)
    plain = [dict(zip(SCHEMA.names, (day, product, 1, 1, value, id_), strict=True)) for product, value, id_ in rows]
    return pa.Table.from_pylist(plain, schema=SCHEMA)


@pytest.mark.parametrize(
    ("landed", "expected"),
    [
        ([], []),
        ([(1, [(1, 20, 1), (2, 21, 1)]), (2, [(1, 5, 2), (3, 22, 2)])], [(1, 5, 2), (2, 21, 1), (3, 22, 2)]),
        ([(2, [(1, 5, 2)]), (1, [(1, 20, 1), (2, 21, 1)])], [(1, 5, 2), (2, 21, 1)]),
        ([(1, [(1, 7, 1), (2, None, 1), (1, 9, 1), (2, -4, 1)])], [(1, 9, 1), (2, -4, 1)]),
    ],
    ids=["no snapshot", "the newest wins and missing keys stay", "any order of arrival", "the greatest value wins"],
)
def test_the_table_that_snapshots_must_give(
    landed: list[tuple[int, list[Row]]], expected: list[Row], bucket: Bucket
) -> None:
    for snapshot_id, rows in landed:
        landing.land(bucket, "feed", snapshot_id, table(*rows))
    assert compare(expected_table(bucket, "feed"), table(*expected)).is_equal


def test_incomplete_and_refused_snapshots_do_not_count(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 1, table((1, 20, 1)))
    landing.land(bucket, "feed", 3, table((1, 6, 3)))
    bucket.blob("feed/snapshot_id=3/_SUCCESS").delete()
    refused = [Delivery(2, landing.land(bucket, "feed", 2, table((1, 5, 2))).marker_generation)]
    assert expected_table(bucket, "feed", refused).equals(table((1, 20, 1)))
    landing.land(bucket, "feed", 2, table((1, 6, 2)))
    assert expected_table(bucket, "feed", refused).equals(table((1, 6, 2)))


@pytest.mark.parametrize(
    ("found", "expected", "too_many", "too_few"),
    [
        ([(1, 20, 1), (2, 21, 1)], [(2, 21, 1), (1, 20, 1)], 0, 0),
        ([(1, 20, 1)], [(1, 25, 1)], 1, 1),
        ([(1, 20, 1)], [(1, 20, 2)], 1, 1),
        ([(1, 20, 1), (1, 20, 1)], [(1, 20, 1)], 1, 0),
        ([], [(1, 20, 1)], 0, 1),
    ],
    ids=["another order", "value", "snapshot id", "twice", "missing"],
)
def test_comparison_of_tables(found: list[Row], expected: list[Row], too_many: int, too_few: int) -> None:
    result = compare(table(*found), table(*expected))
    assert (result.too_many, result.too_few, result.is_equal) == (too_many, too_few, not too_many + too_few)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([(1, 20, 1)], (1, 25, 2), RowChange.CHANGED),
        ([], (1, 25, 2), RowChange.NEW),
        ([(1, 20, 1)], (1, 20, 1), RowChange.SURVIVOR),
        ([(1, 20, 1)], (1, 20, 2), RowChange.EQUAL),
    ],
    ids=["changed", "new", "survivor", "equal"],
)
def test_kind_of_a_row(before: list[Row], after: Row, kind: RowChange) -> None:
    assert [row.change for row in before_and_after.compare_rows(table(*before), table(after), 2)] == [kind]


RECORD: dict[str, Any] = {
    "feed": "feed",
    "outcome": "published",
    "snapshot_id": 2,
    "deliveries": [{"snapshot_id": 2}],
    "generation": 12,
    "run_id": "publish__2__99",
    "arrived_at": "2026-03-01T10:00:00+00:00",
    "swapped_at": "2026-03-01T10:00:41+00:00",
    "lag_s": 41.0,
    "rows": 6,
    "new_rows": 1,
    "changed_rows": 2,
    "kept_rows": 3,
    "dropped_rows": 0,
    "phases": {"dedup": 12.5, "load": 3},
    "a field of tomorrow": 1,
}


def test_the_ledgers_record_of_a_run_is_found_among_others(bucket: Bucket) -> None:
    others = {"00000011-abc": {"run_id": "publish__1__98"}, "00000012-def": {}, "00000013-fff": {"outcome": "refused"}}
    for name, changes in others.items():
        bucket.blob(f"feed/ledger/{name}.json").upload_from_string(json.dumps(RECORD | changes))
    bucket.blob("feed/ledger/00000014-ggg.json").upload_from_string("{}")
    found = ledger_record.read_entry(bucket, "feed", "publish__2__99")
    assert (found.generation, found.changed_rows, found.phases) == (12, 2, {"dedup": 12.5, "load": 3.0})
    assert found.arrived_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    with pytest.raises(DemoError):
        ledger_record.read_entry(bucket, "feed", "publish__9__9")


def test_progress_shows_the_running_task_and_the_error_of_a_failed_one() -> None:
    tasks = [Task("load", "scheduled", 0, -1), Task("dedup", "running", 1, -1)]
    assert delivery_progress.active_tasks(tasks) == "dedup (running)"
    assert delivery_progress.error_lines(["ok", "ValueError: no", "ok"]) == ["ValueError: no"]
    assert delivery_progress.error_lines([f"line {n}" for n in range(30)])[-1] == "line 29"
