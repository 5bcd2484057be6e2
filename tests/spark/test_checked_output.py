"""What a DataFrame plan gives to the writer is compared with the declared columns, and on a sample with its input."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.request import Plan
from dedup_spark.plans.dataframe import join_by_key, row_number
from dedup_spark.plans.dataframe.row_ranking import rank
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

pytestmark = pytest.mark.spark


def publish(spark: SparkSession, folder: Path, plan: Plan, attr_value: Column) -> None:
    """Publish by a plan with a fault: it gives column `attr_value` this content."""

    def faulty(*arguments: object) -> DataFrame:
        return rank(*arguments).withColumn("attr_value", attr_value)

    module = row_number if plan is Plan.WINDOW else join_by_key
    feed = SparkJobFeed(spark, str(folder / "landing"), str(folder / "state"), PRODUCTS, plan=plan)
    rows = [
        {"date": date(2026, 3, 1), "product_id": n, "store_id": 1, "attribute_id": 1, "attr_value": n, "update_id": 1}
        for n in range(300)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "rank", faulty)
        feed.publish(feed.land(1, rows))


@pytest.mark.parametrize("plan", [Plan.WINDOW, pytest.param(Plan.ANTIJOIN, marks=pytest.mark.exhaustive)])
def test_value_that_a_plan_overwrites_fails_the_job(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    publish(spark, tmp_path / "faultless", plan, f.col("attr_value"))
    with pytest.raises(Exception, match="The plan changed a row between reading and writing it"):
        publish(spark, tmp_path / "faulty", plan, f.col("attr_value") + f.lit(1).cast("bigint"))


def test_column_of_another_type_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ContractViolation, match=r"gives columns \['attr_value'\] another type than declared"):
        publish(spark, tmp_path, Plan.WINDOW, f.col("attr_value").cast("string"))
