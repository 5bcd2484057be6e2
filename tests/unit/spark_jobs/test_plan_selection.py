"""Single decisions on plans that the histories of tests/spark do not show."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateEntry, DateOutcome
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.generation import assemble_generation
from dedup_spark.parent import Parent, ParentDate
from dedup_spark.plan_selection import copying_plans
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

BOTH, NEW = date(2026, 1, 1), date(2026, 1, 2)


def entry(day: date) -> DateEntry:
    return DateEntry(day, 1, 0, 0, 0, 0, DateOutcome.ADOPT, "", 1, 1, None, None, "")


def test_values_that_shall_be_compared_themselves_are_left_to_plan_window(tmp_path: Path) -> None:
    """Plan rewrite compares their hashes. Plan window needs Spark, which this feed has not."""
    folders = str(tmp_path / "landing"), str(tmp_path / "state")
    feed = SparkJobFeed(None, *folders, PRODUCTS, UpdateIdMode.LAST_CHANGED, exact=True)
    values = {"product_id": 1, "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": 1}
    with pytest.raises(AssertionError, match="no DataFrames"):
        feed.publish(feed.land(1, [{"date": BOTH, **values}]))


def test_a_date_that_the_parent_copied_forward_is_unchanged_in_a_replay_of_what_is_live() -> None:
    """It would be missing otherwise. The parent is as after a replay of one date alone."""
    replayed = Delivery(7, 1)
    request: Any = SimpleNamespace(
        erases="", plan=Plan.AUTO, retention_day=BOTH, deliveries=(replayed,), update_id_mode=UpdateIdMode.LAST_SEEN
    )
    request.table = PRODUCTS
    entries = {
        BOTH: replace(entry(BOTH), plan=DateOutcome.COPIED_FORWARD),
        NEW: replace(entry(NEW), plan=DateOutcome.REWRITE),
    }
    parent = Parent("", entries, (), 7, 0, deliveries=frozenset([replayed]), complete_since=BOTH)
    plans = copying_plans(request, parent)
    assert plans is not None
    generation = assemble_generation(request, plans, {}, {}, parent)
    assert [e.plan for e in generation.dates] == [DateOutcome.UNCHANGED, DateOutcome.REWRITE]


@pytest.mark.parametrize(
    ("new", "changed", "expected"),
    [(10, 5, 30), (10, None, 20), (0, 0, 0), (125, 0, 250), (126, 0, 0), (1000, 0, 0), (990, 0, 0)],
)
def test_a_publish_of_which_most_rows_differed_says_nothing_about_the_next_one(
    new: int, changed: int | None, expected: int
) -> None:
    """Otherwise the next sketch of the date would be as large as its rows."""
    parent = ParentDate("/data", (), replace(entry(BOTH), rows=1000, new_keys=new, changed=changed))
    assert parent.differing_rows == expected
