"""Reads parent and snapshot as DataFrames, and writes the new table, for peers that are plain Spark jobs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from benchmarks.input_files import COLUMNS, InputFiles

DATED_KEYS = ("date", "product_id", "store_id", "attribute_id")


def read_parent(session: SparkSession, inputs: InputFiles) -> DataFrame:
    return session.read.schema(_schema(inputs)).parquet(*inputs.parent_files())


def read_snapshot(session: SparkSession, inputs: InputFiles) -> DataFrame:
    return session.read.schema(_schema(inputs)).parquet(*inputs.snapshot_files())


def write_table(rows: DataFrame, out: Path) -> None:
    rows.select(*COLUMNS).write.mode("append").partitionBy("date").parquet(str(out))


def _schema(inputs: InputFiles) -> StructType:
    types = {"date": DateType(), "product_id": StringType() if inputs.string_keys else LongType()}
    return StructType([StructField(name, types.get(name, LongType())) for name in COLUMNS])
