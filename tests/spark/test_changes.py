"""Which changes the job records, in the smallest histories that show it. Random histories are compared elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.request import Duplicates, Plan
from dedup_clone.contract.table import Column, UpdateIdMode
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.erased_keys import erase
from tests.spark.product_rows import FIRST, SECOND, row

pytestmark = pytest.mark.spark


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """Without Spark: what needs it fails."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, with_changes=True)


def rows(value_of: int, *products: int, as_of: int | None = None) -> list[dict[str, Any]]:
    """Rows of the first date, with values that depend on `value_of`, of snapshot `as_of` or else `value_of`."""
    return [row(as_of or value_of, product, value_of * 10 + product) for product in products]


def recorded(area: SparkJobFeed, *arrivals: Arrival) -> list[tuple[str, int]]:
    return kinds(area, area.publish(*arrivals))


def kinds(area: SparkJobFeed, candidate: Candidate) -> list[tuple[str, int]]:
    """Kind and product of each change."""
    found = area.changes(candidate)
    assert found is not None
    return sorted((change["change_type"], change["product_id"]) for change in found)


def test_a_key_goes_missing_once_and_returns_once(area: SparkJobFeed) -> None:
    assert area.changes(area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))) is None
    assert recorded(area, area.land(2, [row(2, 1, 10)])) == [("missing", 2)]
    assert recorded(area, area.land(3, [row(3, 1, 10)])) == []
    assert recorded(area, area.land(4, [row(4, 1, 11), row(4, 2, 12)])) == [("changed", 1), ("returned", 2)]
    assert recorded(area, area.land(5, [row(5, 2, 12), row(5, 3, 1), row(5, 9, 1, SECOND)])) == [
        ("missing", 1),
        ("new", 3),
        ("new", 9),
    ]


def test_late_and_repeated_snapshots_make_no_key_missing(area: SparkJobFeed) -> None:
    first = area.land(5, [row(5, 1, 10), row(5, 2, 10)])
    area.publish(first)
    area.plan = Plan.REWRITE
    assert recorded(area, area.land(4, [row(4, 1, 9), row(4, 3, 9)])) == [("new", 3)]
    assert kinds(area, area.replay(first)) == []
    assert recorded(area, area.land(5, [row(5, 1, 11)])) == [("changed", 1)]  # a correction without key 2
    assert recorded(area, area.land(6, [row(6, 1, 11)])) == [("missing", 2)]


def test_a_key_that_was_missing_when_a_late_snapshot_came_returns(area: SparkJobFeed) -> None:
    area.publish(area.land(10, rows(10, 1, 2, 3)))
    assert recorded(area, area.land(20, rows(10, 1, 2, as_of=20))) == [("missing", 3)]
    assert recorded(area, area.land(15, rows(10, 1, 2, 3, as_of=15))) == []
    assert recorded(area, area.land(30, rows(10, 1, 2, 3, as_of=30))) == [("returned", 3)]


def test_keys_go_missing_after_a_rollback_and_a_replay_of_one_date(area: SparkJobFeed) -> None:
    first = area.publish(area.land(10, [*rows(10, 1, 2), row(10, 9, 90, SECOND)]))
    newer = area.land(20, [*rows(20, 1, 2), row(20, 9, 90, SECOND)])
    area.publish(newer)
    area.commit(first)  # as a rollback does
    request = replace(area.request([newer]), deliveries=(area.requested_delivery(newer),), dates=(FIRST,))
    candidate = area.run(request)
    area.commit(candidate)
    assert kinds(area, candidate) == [("changed", 1), ("changed", 2)]
    assert recorded(area, area.land(30, [*rows(20, 1, as_of=30), row(30, 9, 90, SECOND)])) == [("missing", 2)]


def test_an_erasure_of_all_keys_of_the_newest_snapshot_leaves_the_others_missing(area: SparkJobFeed) -> None:
    area.publish(area.land(10, rows(10, 1, 2, 3)))
    assert recorded(area, area.land(20, rows(10, 1, as_of=20))) == [("missing", 2), ("missing", 3)]
    erasure = erase(area, "product_id\n1\n")

    def after_erasure(arrival: Arrival) -> list[tuple[str, int]]:
        candidate = area.run(replace(area.request([arrival]), erasures=(erasure,)))
        area.commit(candidate)
        return kinds(area, candidate)

    assert after_erasure(area.land(30, rows(10, 1, 2, as_of=30))) == [("returned", 2)]
    assert after_erasure(area.land(40, rows(10, 1, 2, as_of=40))) == []


def test_keys_are_missing_and_returned_after_a_rebuild(area: SparkJobFeed) -> None:
    area.publish(area.land(10, rows(10, 1, 2, 3)))
    assert recorded(area, area.land(20, rows(10, 1, 2, as_of=20))) == [("missing", 3)]
    request = replace(area.request([area.land(2**63 - 2, area.rows())]), parent=None, plan=Plan.REWRITE)
    rebuild = area.run(replace(request, takes_over=Duplicates.REFUSE, newest_snapshots={FIRST: 20}))
    assert area.changes(rebuild) is None
    area.commit(rebuild)
    assert recorded(area, area.land(30, rows(10, 1, 3, as_of=30))) == [("missing", 2), ("returned", 3)]


def test_no_key_is_missing_before_update_ids_tell(area: SparkJobFeed) -> None:
    """After a takeover and in mode last_changed they name other snapshots than the newest that has the row."""
    exported = [row(3, 1, 30), row(1, 2, 20), row(2, 3, 10)]
    request = area.request([area.land(2**63 - 2, exported)])
    area.commit(area.run(replace(request, takes_over=Duplicates.REFUSE, plan=Plan.REWRITE)))
    area.plan = Plan.ADOPT
    assert recorded(area, area.land(4, [row(4, 1, 30), row(4, 2, 21)])) == [("changed", 2)]
    assert recorded(area, area.land(5, [row(5, 1, 30)])) == [("missing", 2)]
    area.plan, area.mode = Plan.AUTO, UpdateIdMode.LAST_CHANGED
    assert recorded(area, area.land(6, [row(6, 2, 22)])) == [("changed", 2)]
    area.mode = UpdateIdMode.LAST_SEEN
    assert recorded(area, area.land(7, [row(7, 1, 30)])) == []
    assert recorded(area, area.land(8, [row(8, 2, 22)])) == [("missing", 1), ("returned", 2)]


def test_rows_before_a_new_column_have_null_there(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))
    area.table = replace(PRODUCTS, columns=(*PRODUCTS.columns, Column("note", "STRING")))
    with_note = [{**row(2, 1, 10), "note": "n"}, {**row(2, 2, 10), "note": None}]
    (change,) = area.changes(area.publish(area.land(2, with_note))) or []
    assert (change["change_type"], change["date"], change["product_id"]) == ("changed", FIRST, 1)
    assert change["old_row"] == {**row(1, 1, 10), "note": None}
    assert change["new_row"] == with_note[0]
