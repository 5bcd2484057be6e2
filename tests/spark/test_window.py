"""Plan window: what is left to it, and how rows are moved and sorted for it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, IntegerType, StructField, StructType

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.table import Absent, UpdateIdMode
from dedup_spark.column_types import spark_schema
from dedup_spark.comparison import duplicate_keys, key_source
from dedup_spark.plans.difference import diff_result
from dedup_spark.plans.window.ranking import DAY, DESTINATION_FILE, SOURCE, rank
from dedup_spark.sketch import row_words
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, found, row, rows


def with_two_duplicates(snapshot_id: int) -> list[dict[str, Any]]:
    return [*rows(snapshot_id, *range(300)), row(snapshot_id, 1, 70), row(snapshot_id, 2, 5)]


@pytest.mark.parametrize(
    ("module", "limit", "most"),
    [(duplicate_keys, "_MAX_ROWS", 3), (duplicate_keys, "_MAX_BYTES", 10), (diff_result, "MAX_SURPLUS_ROWS", 1)],
)
def test_more_repeated_keys_than_are_looked_at_are_left_to_plan_window(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, module: Any, limit: str, most: int
) -> None:
    monkeypatch.setattr(module, limit, most)
    # Values that are too large to keep in memory are read once more, but not too many of them.
    monkeypatch.setattr(row_words, "MAX_WORDS", 0)
    monkeypatch.setattr(key_source, "_VALUE_BYTES", 0)
    with pytest.raises(AssertionError, match="this session has no DataFrames"):
        area.publish(area.land(1, with_two_duplicates(1)))


@pytest.mark.spark
def test_what_no_other_plan_can_write_is_left_to_plan_window(
    with_spark: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of several dates, several deliveries of which one is late, and more repeated keys than are looked at."""
    feed = with_spark
    feed.run_tasks_in_this_process()
    feed.date_folders = False
    feed.publish(feed.deliver(1, {"two.parquet": pa.Table.from_pylist(rows(1, 1) + rows(1, 1, day=SECOND), SCHEMA)}))
    assert "two.parquet] holds [2] dates" in feed.entry(FIRST).plan_reason
    feed.date_folders = True
    feed.plan = Plan.REWRITE
    feed.publish(feed.land(3, rows(3, 1, 2)), feed.land(4, rows(4, 1)))
    assert feed.entry(FIRST).plan == "window"
    assert "not rewritten: [2] deliveries have the date" in feed.entry(FIRST).plan_reason
    feed.plan = Plan.AUTO
    with monkeypatch.context() as patch:
        patch.setattr(duplicate_keys, "_MAX_ROWS", 3)
        feed.publish(feed.land(5, with_two_duplicates(5)))
    entry = feed.entry(FIRST)
    assert (entry.plan, entry.ties, entry.rows) == ("window", 2, 300)
    assert "not adopted: deliveries have too many rows of repeated keys" in entry.plan_reason
    assert (1, 70, 5) in found(feed)
    feed.publish(feed.land(9, rows(9, *range(300))))
    assert (feed.entry(FIRST).plan, feed.entry(FIRST).changed) == ("adopt", 300)


@pytest.mark.spark
@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_a_snapshot_that_does_not_count_on_a_date_changes_nothing_there_although_its_file_is_read(
    with_spark: SparkJobFeed, mode: UpdateIdMode
) -> None:
    """Its file has rows of another date, too, on which the snapshot counts."""
    with_spark.plan, with_spark.mode, with_spark.date_folders = Plan.WINDOW, mode, False
    job = JobAgainstOracle(with_spark)
    job.set_absent(Absent.DELETE)
    job.play([row(2, 1, 1), row(2, 2, 2)])
    job.play([row(3, 3, 3), row(3, 4, 4), row(3, 1, 7), row(3, 1, 1, SECOND)], [row(4, 1, 1), row(4, 2, 2)])
    assert [key_and_value[:2] for key_and_value in found(with_spark)] == [(1, 1), (1, 1), (2, 2)]
    if mode is UpdateIdMode.LAST_SEEN:  # in the other mode late snapshots are refused
        job.play([row(1, 7, 7), row(1, 8, 8), row(1, 9, 9), row(1, 9, 9, SECOND + timedelta(days=1))])
        assert [row["product_id"] for row in with_spark.rows() if row["date"] == FIRST] == [1, 2]


@pytest.mark.spark
def test_files_are_sorted_and_of_the_requested_size_and_keys_of_each_difference_are_shown(
    with_spark: SparkJobFeed,
) -> None:
    with_spark.plan, with_spark.file_bytes = Plan.WINDOW, 1000
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
def test_a_date_that_the_delivery_lacks_is_copied(with_spark: SparkJobFeed) -> None:
    with_spark.plan = Plan.WINDOW
    with_spark.publish(with_spark.land(1, [row(1, 1, 1), row(1, 2, 2, SECOND)]))
    before = with_spark.entry(SECOND).files_digest
    with_spark.publish(with_spark.land(2, [row(2, 1, 1)]))
    assert (with_spark.entry(SECOND).plan, with_spark.entry(SECOND).new_keys) == ("copied forward", 0)
    assert with_spark.entry(SECOND).files_digest == before


def operators(spark: SparkSession, mode: UpdateIdMode) -> list[str]:
    """Names of the physical operators, without their arguments."""
    helpers = [StructField(name, IntegerType()) for name in (SOURCE, DESTINATION_FILE)]
    columns = [*spark_schema(PRODUCTS.columns), StructField(DAY, DateType()), *helpers]
    none = spark.createDataFrame([], StructType(columns))
    text = rank(none, PRODUCTS, mode, 4)._jdf.queryExecution().executedPlan().toString()
    return [line.lstrip("+-:* ()0123456789").split(" ")[0].split("(")[0] for line in text.splitlines()]


@pytest.mark.spark
@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_each_row_is_moved_between_tasks_once_and_sorted_once(spark: SparkSession, mode: UpdateIdMode) -> None:
    found = operators(spark, mode)
    assert (found.count("Exchange"), found.count("Sort")) == (1, 1)
