"""Mode last_changed: a row's update_id is that of the snapshot in which its values changed or it first appeared."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from tests.spark.feed_area import FeedArea
from tests.spark.tables import PRODUCTS
from tests.spark.test_dedup import FIRST, SECOND, found, row

pytestmark = pytest.mark.spark


@pytest.fixture(params=[Plan.WINDOW, Plan.AUTO])
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> FeedArea:
    landing, state = str(tmp_path / "landing"), str(tmp_path / "state")
    return FeedArea(spark, landing, state, PRODUCTS, UpdateIdMode.LAST_CHANGED, request.param)


def test_unchanged_row_keeps_its_update_id_and_changed_row_takes_the_new_one(area: FeedArea) -> None:
    area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))
    area.publish(area.land(2, [row(2, 1, 10), row(2, 2, 20), row(2, 3, 30)]))
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 30, 2)]


def test_value_that_changes_and_changes_back_inside_a_backlog_counts_as_changed(area: FeedArea) -> None:
    area.publish(area.land(1, [row(1, 1, 10)]))
    area.publish(area.land(2, [row(2, 1, 20)]), area.land(3, [row(3, 1, 10)]), area.land(4, [row(4, 1, 10)]))
    assert found(area) == [(1, 10, 3)]


def test_date_without_any_change_keeps_the_parents_files(area: FeedArea) -> None:
    area.publish(area.land(1, [row(1, 1, 10), row(1, 1, 10, SECOND)]))
    before = {day: area.entry(day) for day in (FIRST, SECOND)}
    area.publish(area.land(2, [row(2, 1, 10), row(2, 1, 11, SECOND)]))
    assert area.entry(FIRST).files_digest == before[FIRST].files_digest
    assert area.entry(FIRST).plan != "carried"
    assert "no row changed" in area.entry(FIRST).plan_reason
    assert area.entry(SECOND).files_digest != before[SECOND].files_digest
    assert sorted((r["date"], r["attr_value"]) for r in area.rows()) == [(FIRST, 10), (SECOND, 11)]


def test_late_snapshot_is_refused_and_a_redelivery_of_the_newest_is_not(area: FeedArea) -> None:
    area.publish(area.land(7, [row(7, 1, 10)]))
    late = area.publish(area.land(6, [row(6, 1, 60)]))
    (refused,) = late.refused
    assert "snapshot id [6] is below [7], the highest that the table has" in refused.reason
    area.publish(area.land(7, [row(7, 1, 11)]))
    assert found(area) == [(1, 11, 7)]


def test_snapshot_that_changed_nothing_still_makes_older_ones_late(area: FeedArea) -> None:
    area.publish(area.land(5, [row(5, 1, 10)]))
    area.publish(area.land(8, [row(8, 1, 10)]))
    assert found(area) == [(1, 10, 5)]
    late = area.publish(area.land(7, [row(7, 1, 70)]))
    assert [r.delivery.snapshot_id for r in late.refused] == [7]


def test_day_of_a_survivor_is_compared_with_its_last_version(area: FeedArea) -> None:
    """Product 1 pauses in snapshot 2 and comes back as it was: nothing about it has changed."""
    area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))
    area.publish(area.land(2, [row(2, 2, 10)]))
    area.publish(area.land(3, [row(3, 1, 10), row(3, 2, 10)]))
    assert found(area) == [(1, 10, 1), (2, 10, 1)]
    assert area.entry(date(2026, 3, 1)).survivors == 0
