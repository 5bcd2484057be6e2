"""A NULL STRUCT may have REQUIRED fields, in BigQuery and in every plan (BigQuery documentation: nested-repeated)."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import RETENTION_DAY, SparkJobFeed
from testkit.table_contracts import oracle_table

pytestmark = pytest.mark.spark

DAY = date(2026, 3, 1)
LABEL = Column("label", "STRING", ColumnMode.REQUIRED)
TABLE = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("code", "INT64"),
        Column("info", "STRUCT", fields=(LABEL, Column("weight", "FLOAT64"))),
        Column("parts", "STRUCT", ColumnMode.REPEATED, (Column("inner", "STRUCT", fields=(LABEL,)),)),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "code"),
    cluster_by=("code",),
    retention_days=730,
)
# As most writers leave it: every field is nullable.
INNER = pa.struct([("label", pa.string())])
WRITTEN = pa.schema(
    [
        ("day", pa.date32()),
        ("code", pa.int64()),
        ("info", pa.struct([("label", pa.string()), ("weight", pa.float64())])),
        ("parts", pa.list_(pa.field("element", pa.struct([("inner", INNER)])))),
        ("version", pa.int64()),
    ]
)


def row(version: int, code: int, info: str | None, *parts: str | None) -> dict[str, Any]:
    return {
        "day": DAY,
        "code": code,
        "info": None if info is None else {"label": info, "weight": None},
        "parts": [{"inner": None if label is None else {"label": label}} for label in parts],
        "version": version,
    }


@pytest.mark.parametrize(
    "plan", [Plan.AUTO, Plan.REWRITE, pytest.param(Plan.ANTIJOIN, marks=pytest.mark.exhaustive), Plan.WINDOW]
)
def test_null_structs_with_required_fields(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    feed = SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), TABLE, plan=plan)
    oracle = OracleState(oracle_table(TABLE))
    snapshots = [
        [row(1, 1, None, None, "a"), row(1, 2, "x"), row(1, 3, None), row(1, 4, "", "b", None)],
        [row(2, 1, None, None, "a"), row(2, 2, None, None), row(2, 3, "", ""), row(2, 5, None), row(2, 5, "y")],
    ]
    for version, rows in enumerate(snapshots, start=1):
        assert feed.publish(feed.land(version, rows, schema=WRITTEN)).refused == ()
        oracle = oracle.apply([OracleDelivery(version, rows)], RETENTION_DAY)
        assert comparable(oracle.table, feed.rows()) == oracle.table_rows()
        assert (feed.entry(DAY).changed, feed.entry(DAY).new_keys) == (
            oracle.counts[DAY].changed,
            oracle.counts[DAY].new_keys,
        )
