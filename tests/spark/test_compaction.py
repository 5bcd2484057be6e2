"""Files of survivors: few a date, however many snapshots they live through and whoever wrote them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import Plan
from dedup_spark import plan_selection
from dedup_spark.column_types import arrow_schema
from dedup_spark.plans.adopt.survivor_files import MAX_SURVIVOR_FILES
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, found, rows

pytestmark = pytest.mark.spark


def survivors_of(area: SparkJobFeed) -> list[DataFile]:
    newest = area.entry(FIRST).max_update_id
    return [file for file in area.files().files if file.date == FIRST and file.max_update_id < newest]


def test_a_date_that_loses_keys_with_every_snapshot_has_at_most_eight_files_of_survivors(area: SparkJobFeed) -> None:
    """Each snapshot lacks fewer keys than the one before, so that files are merged as late as possible."""
    lost = [2 ** (13 - n) for n in range(14)]
    first, expected = 0, 0
    area.publish(area.land(1, rows(1, *range(sum(lost) + 1))))
    for snapshot_id, count in enumerate(lost, start=2):
        first, expected = first + count, expected + count
        area.publish(area.land(snapshot_id, rows(snapshot_id, *range(first, sum(lost) + 1))))
        assert len(survivors_of(area)) <= MAX_SURVIVOR_FILES
        assert sum(file.rows for file in survivors_of(area)) == area.entry(FIRST).survivors == expected
    assert len(survivors_of(area)) == MAX_SURVIVOR_FILES


def test_more_files_than_that_become_one_although_no_survivor_came_or_went(
    spark: SparkSession, area: SparkJobFeed
) -> None:
    """Spark wrote the date in many small files, of which only one holds a row of the newest snapshot."""
    area.session, area.plan, area.file_bytes = spark, Plan.WINDOW, 500
    area.publish(area.land(1, rows(1, *range(300))))
    area.publish(area.land(2, rows(2, 7)))
    assert len(survivors_of(area)) > MAX_SURVIVOR_FILES
    area.session, area.plan = None, Plan.AUTO
    area.publish(area.land(3, rows(3, 7)))
    (file,) = survivors_of(area)
    assert (file.rows, area.entry(FIRST).plan, area.entry(FIRST).survivors) == (299, "adopt", 299)
    assert len(found(area)) == 300


def test_rewrite_leaves_no_file_of_survivors_apart(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(100))))
    for snapshot_id in range(2, 6):
        area.publish(area.land(snapshot_id, rows(snapshot_id, *range(snapshot_id, 100))))
    assert len(area.files().files) > 1
    area.plan = Plan.REWRITE
    area.publish(area.land(6, rows(6, *range(6, 100))))
    (file,) = area.files().files
    assert (file.rows, file.min_update_id, file.max_update_id) == (100, 1, 6)


def land_twelve_files_and_two(area: SparkJobFeed, snapshot_id: int, *, without: int = 0) -> Arrival:
    """One row each; the first `without` files of the first date are left out."""
    for day, numbers in ((FIRST, range(without, 12)), (SECOND, range(2))):
        for number in numbers:
            part = pa.Table.from_pylist(rows(snapshot_id, number, day=day), schema=arrow_schema(PRODUCTS.columns))
            area.put(snapshot_id, f"date={day}/{number}.parquet", part)
    return area.arrive(snapshot_id)


def test_dates_of_the_most_files_are_written_anew_where_a_generation_had_too_many(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fourteen files, and one of survivors for each date: more than fifteen."""
    monkeypatch.setattr(plan_selection, "MAX_TABLE_FILES", 15)
    area.publish(land_twelve_files_and_two(area, 1))
    assert (area.entry(FIRST).plan, area.entry(SECOND).plan) == ("rewrite", "adopt")
    assert area.entry(FIRST).plan_reason.startswith("not adopted: its [12] files would give the table too many files")
    assert [file.rows for file in area.files().files if file.date == FIRST] == [12]
    assert len(found(area)) == 14


def test_as_many_files_as_a_generation_may_have_are_adopted(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Survivors are counted as the files that they lie in, not as the most that they could lie in."""
    area.publish(land_twelve_files_and_two(area, 1))
    monkeypatch.setattr(plan_selection, "MAX_TABLE_FILES", 16)
    for snapshot_id in (2, 3):  # thirteen files, one of survivors, room for one more on each date
        area.publish(land_twelve_files_and_two(area, snapshot_id, without=1))
        assert {entry.plan for entry in area.manifest.dates} == {"adopt"}
        assert len(area.files().files) == 14
    assert len(found(area)) == 14
