"""What the plans cost: each row is moved between tasks once, and sorted for writing no more often than needed."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.column_types import spark_schema
from dedup_spark.plans.dataframe.checked_output import with_fingerprint
from dedup_spark.plans.dataframe.dataframe_plan import DEDUPLICATE
from dedup_spark.plans.dataframe.helper_columns import SOURCE
from dedup_spark.plans.dataframe.output_partitions import OutputPartitions
from dedup_spark.plans.dataframe.sources import Sources
from testkit.table_contracts import PRODUCTS

pytestmark = pytest.mark.spark

DAYS = (date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3))


def operators(spark: SparkSession, plan: Plan, mode: UpdateIdMode, files: tuple[int, ...]) -> list[str]:
    """Names of the physical operators, without their arguments."""

    def rows(source: int) -> DataFrame:
        none = spark.createDataFrame([], spark_schema(PRODUCTS.columns))
        return with_fingerprint(none, PRODUCTS).withColumn(SOURCE, f.lit(source))

    partitions = OutputPartitions(dict(zip(DAYS, files, strict=True)), 4)
    resolved = DEDUPLICATE[plan](Sources(PRODUCTS, mode, partitions, rows(1), rows(0)))
    text = resolved._jdf.queryExecution().executedPlan().toString()
    return [line.lstrip("+-:* ()0123456789").split(" ")[0].split("(")[0] for line in text.splitlines()]


@pytest.mark.parametrize(
    "mode", [pytest.param(UpdateIdMode.LAST_SEEN, marks=pytest.mark.exhaustive), UpdateIdMode.LAST_CHANGED]
)
@pytest.mark.parametrize("files", [(1, 1, 1), (4, 1, 8)], ids=["whole_dates", "many_files"])
def test_window_shuffles_and_sorts_the_union_once(
    spark: SparkSession, mode: UpdateIdMode, files: tuple[int, ...]
) -> None:
    found = operators(spark, Plan.WINDOW, mode, files)
    assert (found.count("Exchange"), found.count("Sort")) == (1, 1)


@pytest.mark.parametrize(
    "mode", [pytest.param(UpdateIdMode.LAST_SEEN, marks=pytest.mark.exhaustive), UpdateIdMode.LAST_CHANGED]
)
@pytest.mark.parametrize("files", [(1, 1, 1), (4, 1, 8)], ids=["whole_dates", "many_files"])
def test_antijoin_shuffles_each_side_once(spark: SparkSession, mode: UpdateIdMode, files: tuple[int, ...]) -> None:
    """Each side is sorted by key for the join, and its result once for the files (before Spark 4.0 once more)."""
    found = operators(spark, Plan.ANTIJOIN, mode, files)
    assert found.count("Exchange") == 2
    assert found.count("Sort") in ({3} if spark.version >= "4" else {3, 4})
    assert found.count("SortMergeJoin") == 1
