"""The plans of Spark's DataFrames: what is left to them, what they cost, and that their output is checked."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.column_types import spark_schema
from dedup_spark.comparison import duplicate_keys
from dedup_spark.plans.dataframe import join_by_key, row_number
from dedup_spark.plans.dataframe.checked_output import with_fingerprint
from dedup_spark.plans.dataframe.dataframe_plan import DEDUPLICATE
from dedup_spark.plans.dataframe.helper_columns import SOURCE
from dedup_spark.plans.dataframe.output_partitions import OutputPartitions
from dedup_spark.plans.dataframe.row_ranking import rank
from dedup_spark.plans.dataframe.sources import Sources
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, found, row, rows


def with_two_duplicates(snapshot_id: int) -> list[dict[str, Any]]:
    return [*rows(snapshot_id, *range(300)), row(snapshot_id, 1, 70), row(snapshot_id, 2, 5)]


@pytest.mark.parametrize(("limit", "most"), [("_MAX_ROWS", 3), ("_MAX_BYTES", 10), ("_MAX_SURPLUS_ROWS", 1)])
def test_more_repeated_keys_than_are_looked_at_are_left_to_spark(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(duplicate_keys, limit, most)
    with pytest.raises(AssertionError, match="this session has no DataFrames"):
        area.publish(area.land(1, with_two_duplicates(1)))


@pytest.mark.spark
def test_what_cannot_be_streamed_is_left_to_spark(with_spark: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of several dates, several deliveries of which one is late, and more repeated keys than are looked at."""
    feed = with_spark
    feed.run_tasks_in_this_process()
    feed.date_folders = False
    feed.publish(feed.deliver(1, {"two.parquet": pa.Table.from_pylist(rows(1, 1) + rows(1, 1, day=SECOND), SCHEMA)}))
    assert "two.parquet] holds [2] dates" in feed.entry(FIRST).plan_reason
    feed.date_folders = True
    feed.plan = Plan.REWRITE
    feed.publish(feed.land(3, rows(3, 1, 2)), feed.land(4, rows(4, 1)))
    assert "written by Spark: [2] deliveries have the date" in feed.entry(FIRST).plan_reason
    feed.plan = Plan.AUTO
    with monkeypatch.context() as patch:
        patch.setattr(duplicate_keys, "_MAX_ROWS", 3)
        feed.publish(feed.land(5, with_two_duplicates(5)))
    entry = feed.entry(FIRST)
    assert (entry.plan, entry.ties, entry.rows) == ("rewrite", 2, 300)
    assert "not adopted: deliveries have too many rows of repeated keys" in entry.plan_reason
    assert (1, 70, 5) in found(feed)
    feed.publish(feed.land(9, rows(9, *range(300))))
    assert (feed.entry(FIRST).plan, feed.entry(FIRST).changed) == ("adopt", 300)


@pytest.mark.spark
@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.ANTIJOIN])
def test_files_are_sorted_and_of_the_requested_size_and_keys_of_each_difference_are_shown(
    with_spark: SparkJobFeed, plan: Plan
) -> None:
    with_spark.plan, with_spark.file_bytes = plan, 1000
    job = JobAgainstOracle(with_spark)
    job.play([row(1, n * 7919 % 300, 1) for n in range(300)] + [row(1, 1, 1, SECOND)])
    candidate = job.publish(job.land(2, [row(2, n, 2) for n in range(100, 400)] + [row(2, 2, 2, SECOND)]))
    files = [file for file in with_spark.files().files if file.date == FIRST]
    assert len(files) > 1
    for file in files:
        path = Path(with_spark.data_uri()) / file.path
        products = pq.read_table(path, partitioning=None)["product_id"].to_pylist()
        assert products == sorted(products)
    assert {example.difference for example in candidate.examples if example.date == FIRST} == {
        "new", "survivor", "changed"
    }  # fmt: skip


@pytest.mark.spark
def test_all_is_written_anew_and_a_date_that_the_delivery_lacks_is_still_missing(with_spark: SparkJobFeed) -> None:
    with_spark.plan = Plan.WINDOW
    with_spark.publish(with_spark.land(1, [row(1, 1, 1), row(1, 2, 2, SECOND)]))
    before = with_spark.entry(SECOND).files_digest
    with_spark.publish(with_spark.land(2, [row(2, 1, 1)]))
    assert (with_spark.entry(SECOND).plan, with_spark.entry(SECOND).new_keys) == ("carried", 0)
    assert with_spark.entry(SECOND).files_digest != before


def publish_with_fault(spark: SparkSession, folder: Path, plan: Plan, attr_value: Column) -> None:
    """Publish by a plan with a fault: it gives column `attr_value` this content."""

    def faulty(*arguments: Any) -> DataFrame:
        return rank(*arguments).withColumn("attr_value", attr_value)

    feed = SparkJobFeed(spark, str(folder / "landing"), str(folder / "state"), PRODUCTS, plan=plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_number if plan is Plan.WINDOW else join_by_key, "rank", faulty)
        feed.publish(feed.land(1, [row(1, n, n) for n in range(300)]))


@pytest.mark.spark
def test_a_value_or_type_that_a_plan_changes_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    publish_with_fault(spark, tmp_path / "faultless", Plan.WINDOW, f.col("attr_value"))
    with pytest.raises(Exception, match="The plan changed a row between reading and writing it"):
        publish_with_fault(spark, tmp_path / "value", Plan.WINDOW, f.col("attr_value") + f.lit(1).cast("bigint"))
    with pytest.raises(ContractViolation, match="another type than declared"):
        publish_with_fault(spark, tmp_path / "type", Plan.WINDOW, f.col("attr_value").cast("string"))


DAYS = (date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3))


def operators(spark: SparkSession, plan: Plan, mode: UpdateIdMode, files: tuple[int, ...]) -> list[str]:
    """Names of the physical operators, without their arguments."""

    def rows_of(source: int) -> DataFrame:
        none = spark.createDataFrame([], spark_schema(PRODUCTS.columns))
        return with_fingerprint(none, PRODUCTS).withColumn(SOURCE, f.lit(source))

    partitions = OutputPartitions(dict(zip(DAYS, files, strict=True)), 4)
    resolved = DEDUPLICATE[plan](Sources(PRODUCTS, mode, partitions, rows_of(1), rows_of(0)))
    text = resolved._jdf.queryExecution().executedPlan().toString()
    return [line.lstrip("+-:* ()0123456789").split(" ")[0].split("(")[0] for line in text.splitlines()]


@pytest.mark.spark
def test_each_row_is_moved_between_tasks_once_and_sorted_no_more_often_than_needed(spark: SparkSession) -> None:
    """A join sorts each side by key, and its result once for the files (before Spark 4.0 once more)."""
    for mode in UpdateIdMode:
        for files in ((1, 1, 1), (4, 1, 8)):
            window = operators(spark, Plan.WINDOW, mode, files)
            assert (window.count("Exchange"), window.count("Sort")) == (1, 1)
            join = operators(spark, Plan.ANTIJOIN, mode, files)
            assert (join.count("Exchange"), join.count("SortMergeJoin")) == (2, 1)
            assert join.count("Sort") in ({3} if spark.version >= "4" else {3, 4})
