"""Tables that are partitioned by a time: a row belongs to the time's date in UTC, and the time is part of its key."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Plan
from dedup_spark.arrow_cast import dates_of
from dedup_spark.column_types import arrow_schema
from testkit.generated_tables import GeneratedHistory
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, PRODUCTS, by_time
from tests.spark.against_oracle import JobAgainstOracle
from tests.spark.product_rows import FIRST, SECOND, row


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "date_folders"), [("DATETIME", True), ("TIMESTAMP", False)])
def test_plan_window_writes_one_file_for_a_small_day(
    spark: SparkSession, tmp_path: Path, kind: str, date_folders: bool
) -> None:
    """The second of three snapshots is published last."""
    table, folders = by_time(NESTED, kind), (str(tmp_path / "landing"), str(tmp_path / "state"))
    feed = SparkJobFeed(spark, *folders, table, plan=Plan.WINDOW, date_folders=date_folders)
    job, snapshots = JobAgainstOracle(feed), GeneratedHistory(table, Random(kind), FIRST, repeat=0.1)
    for snapshot_id in (1, 3, 2):
        job.publish(job.land(snapshot_id, snapshots.snapshot(snapshot_id)))
    days = [file.date for file in job.feed.files().files]
    assert sorted(days) == sorted({job.state.table.day(found) for found in job.state.rows.values()})


def delivered(feed: SparkJobFeed, snapshot_id: int, moment: datetime, unit: str, zone: str) -> list[str]:
    """Publish one row, whose file names the zone, in the folder of FIRST. Returns the reasons of refusals."""
    schema = arrow_schema(feed.table.columns).set(0, pa.field("date", pa.timestamp(unit, zone)))
    content = pa.Table.from_pylist([{**row(snapshot_id, 1, 1), "date": moment}], schema=schema)
    candidate = feed.publish(feed.deliver(snapshot_id, {f"date={FIRST}/part-{snapshot_id}.parquet": content}))
    return [refusal.reason for refusal in candidate.refused]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_zone_that_a_file_names_moves_no_row_to_another_day(tmp_path: Path, unit: str) -> None:
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), by_time(PRODUCTS, "TIMESTAMP"))
    late, early = datetime(2026, 3, 1, 23, 30, tzinfo=UTC), datetime(2026, 3, 2, 0, 30, tzinfo=UTC)
    assert delivered(feed, 1, late, unit, "Europe/Berlin") == []  # there, it is 2 March already
    assert feed.rows() == [{**row(1, 1, 1), "date": late}]
    (reason,) = delivered(feed, 2, early, unit, "America/New_York")  # there, it is still 1 March
    assert f"rows have another date such as [{SECOND}], expected its folder's [{FIRST}]" in reason


def test_folders_of_a_time_are_called_date(tmp_path: Path) -> None:
    table = by_time(NESTED, "TIMESTAMP")  # whose column is called `day`
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), table)
    rows = GeneratedHistory(table, Random(1), FIRST, days=1).snapshot(1)
    content = pa.Table.from_pylist(rows, schema=arrow_schema(table.columns))
    assert feed.publish(feed.deliver(1, {f"date={FIRST}/part.parquet": content})).refused == ()
    assert len(feed.rows()) == len(rows)
    (refused,) = feed.publish(feed.deliver(1, {f"day={FIRST}/part.parquet": content})).refused
    assert "is in no folder [date=YYYY-MM-DD]" in refused.reason


def test_the_date_of_a_time_is_that_of_the_midnight_before_it() -> None:
    moments = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31, 23)]  # noqa: DTZ001
    expected = [moment.date() for moment in moments]
    assert dates_of(pa.array(moments, pa.timestamp("us"))).to_pylist() == expected
    assert dates_of(pa.array(expected, pa.date32())).to_pylist() == expected
