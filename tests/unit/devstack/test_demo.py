"""The demo: the table that it expects of snapshots, how it compares tables, and what it reads of a publish."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from google.cloud.storage import Bucket

from dedup_clone.contract.delivery import Delivery
from dedup_clone.state.ledger import Ledger, Outcome
from dedup_clone.state.store import ObjectStore
from devstack.demo import delivery_progress
from devstack.demo.airflow_api import DemoError, Task
from devstack.demo.demo_run import read_record
from devstack.demo.example_table import compared_rows
from devstack.demo.expected_table import expected_table
from devstack.demo.table_comparison import compare
from devstack.producer import feeds, landing
from devstack.producer.demo_feeds import SCHEMA
from tests.shared.freshness_states import record

FEED = feeds.read("product_attributes")
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
        landing.land(bucket, FEED, snapshot_id, table(*rows))
    assert compare(expected_table(bucket, "product_attributes"), table(*expected)).is_equal


def test_incomplete_and_refused_snapshots_do_not_count(bucket: Bucket) -> None:
    landing.land(bucket, FEED, 1, table((1, 20, 1)))
    landing.land(bucket, FEED, 3, table((1, 6, 3)))
    bucket.blob("product_attributes/snapshot_id=3/_SUCCESS").delete()
    refused = [Delivery(2, landing.land(bucket, FEED, 2, table((1, 5, 2))).marker_generation)]
    assert expected_table(bucket, "product_attributes", refused).equals(table((1, 20, 1)))
    landing.land(bucket, FEED, 2, table((1, 6, 2)))
    assert expected_table(bucket, "product_attributes", refused).equals(table((1, 6, 2)))


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
        ([(1, 20, 1)], (1, 25, 2), "20 -> 25    1 -> 2     changed"),
        ([], (1, 25, 2), "25          2          new"),
        ([(1, 20, 1)], (1, 20, 1), "20          1          kept-missing"),
        ([(1, 20, 1)], (1, 20, 2), "20          1 -> 2     equal"),
    ],
    ids=["changed", "new", "survivor", "equal"],
)
def test_kind_of_a_row(before: list[Row], after: Row, kind: str) -> None:
    assert compared_rows(table(*before), table(after), 2)[1].endswith(kind)


def test_the_ledgers_record_of_a_run_is_found_among_others(bucket: Bucket) -> None:
    ledger = Ledger(ObjectStore(bucket.client, bucket.name), "feed")
    for number, (run, outcome) in enumerate(((98, "published"), (99, "published"), (99, "refused")), start=11):
        attempt = f"{number:08d}-abc"
        ledger.write(record(attempt=attempt, run_id=f"publish__2__{run}", outcome=Outcome(outcome)))
    assert read_record(bucket, "feed", "publish__2__99").attempt == "00000012-abc"
    with pytest.raises(DemoError):
        read_record(bucket, "feed", "publish__9__9")


def test_progress_shows_the_running_task_and_the_error_of_a_failed_one() -> None:
    tasks = [Task("load", "scheduled", 0, -1), Task("dedup", "running", 1, -1)]
    assert delivery_progress.active_tasks(tasks) == "dedup (running)"
    assert delivery_progress.error_lines(["ok", "ValueError: no", "ok"]) == ["ValueError: no"]
    assert delivery_progress.error_lines([f"line {n}" for n in range(30)])[-1] == "line 29"
