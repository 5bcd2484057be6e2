"""Value columns that are named like helper columns of the plans keep their values."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import Column, TableContract, UpdateIdMode
from dedup_spark.plans.dataframe import helper_columns
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import RETENTION_DAY, SparkJobFeed
from testkit.table_contracts import oracle_table

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
NAMES = (
    *("_rank", "_winner", "_first_other", "_unbroken", "_source", "_output_file", "_bucket", "_surplus", "_newest"),
    *("_in_parent", "_in_state", "_changed", "_metadata", "new", "old"),
)
TABLE = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("code", "INT64"),
        *(Column(name, "INT64") for name in NAMES),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "code"),
    cluster_by=("code",),
    retention_days=730,
)


def row(version: int, day: date, code: int, value: int) -> dict[str, Any]:
    values = {name: 1000 * value + number for number, name in enumerate(NAMES)}
    return {"day": day, "code": code, **values, "version": version}


@pytest.mark.parametrize(
    "mode", [UpdateIdMode.LAST_CHANGED, pytest.param(UpdateIdMode.LAST_SEEN, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize(
    "plan", [Plan.WINDOW, *(pytest.param(plan, marks=pytest.mark.exhaustive) for plan in (Plan.ANTIJOIN, Plan.AUTO))]
)
def test_columns_named_like_helper_columns_keep_their_values(
    spark: SparkSession, tmp_path: Path, plan: Plan, mode: UpdateIdMode
) -> None:
    feed = SparkJobFeed(
        spark, str(tmp_path / "landing"), str(tmp_path / "state"), TABLE, mode=mode, plan=plan, date_folders=False
    )
    oracle = OracleState(oracle_table(TABLE), mode is UpdateIdMode.LAST_CHANGED)
    days = (FIRST, SECOND)
    snapshots = [
        [row(1, day, code, code) for day in days for code in range(3)],
        [row(2, day, code, 7 if code == 1 else code) for day in days for code in range(1, 4)] + [row(2, FIRST, 1, 5)],
    ]
    for version, rows in enumerate(snapshots, start=1):
        assert feed.publish(feed.land(version, rows)).refused == ()
        oracle = oracle.apply([OracleDelivery(version, rows)], RETENTION_DAY)
        assert comparable(oracle.table, feed.rows()) == oracle.table_rows()


def test_table_with_a_helper_column_is_refused() -> None:
    column = Column(helper_columns.SURPLUS, "INT64")
    with pytest.raises(ConfigurationError, match=helper_columns.SURPLUS):
        helper_columns.require_free_names(replace(TABLE, columns=(*TABLE.columns, column)))
