"""Both sides as DataFrames, and the way in which the plain Spark peers write the new table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from benchmarks.inputs import COLUMNS, Inputs

DATED_KEYS = ("date", "product_id", "store_id", "attribute_id")


def state(session: SparkSession, inputs: Inputs) -> DataFrame:
    return session.read.schema(_schema(inputs)).parquet(*inputs.state_files())


def snapshot(session: SparkSession, inputs: Inputs) -> DataFrame:
    return session.read.schema(_schema(inputs)).parquet(*inputs.snapshot_files())


def write(rows: DataFrame, out: Path) -> None:
    rows.select(*COLUMNS).write.mode("append").partitionBy("date").parquet(str(out))


def _schema(inputs: Inputs) -> StructType:
    special = {"date": DateType(), "product_id": StringType() if inputs.string_keys else LongType()}
    return StructType([StructField(name, special.get(name, LongType())) for name in COLUMNS])
