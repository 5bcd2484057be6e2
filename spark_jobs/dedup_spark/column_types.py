"""BigQuery's column types as Spark types and as Arrow types. The settings of a feed allow no other type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import types as spark

from dedup_clone.contract.table import NUMERIC_PRECISION, NUMERIC_SCALE, Column, ColumnMode


class ScalarType(NamedTuple):
    """The Spark type that holds a BigQuery type, and the Arrow type in which the job writes it to Parquet."""

    in_spark: spark.DataType
    in_arrow: pa.DataType


SCALARS = {
    "BOOL": ScalarType(spark.BooleanType(), pa.bool_()),
    "BYTES": ScalarType(spark.BinaryType(), pa.binary()),
    "DATE": ScalarType(spark.DateType(), pa.date32()),
    "DATETIME": ScalarType(spark.TimestampNTZType(), pa.timestamp("us")),
    "FLOAT64": ScalarType(spark.DoubleType(), pa.float64()),
    "INT64": ScalarType(spark.LongType(), pa.int64()),
    "NUMERIC": ScalarType(
        spark.DecimalType(NUMERIC_PRECISION, NUMERIC_SCALE), pa.decimal128(NUMERIC_PRECISION, NUMERIC_SCALE)
    ),
    "STRING": ScalarType(spark.StringType(), pa.string()),
    "TIMESTAMP": ScalarType(spark.TimestampType(), pa.timestamp("us", tz="UTC")),
}
STRUCT = "STRUCT"


def spark_schema(columns: tuple[Column, ...]) -> spark.StructType:
    """The declared columns as Spark's schema, all nullable. Validation refuses files with NULL in REQUIRED columns."""
    return spark.StructType([spark.StructField(c.name, spark_type(c)) for c in columns])


def spark_type(column: Column) -> spark.DataType:
    inner = spark_schema(column.fields) if column.type == STRUCT else SCALARS[column.type].in_spark
    return spark.ArrayType(inner) if column.mode is ColumnMode.REPEATED else inner


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The schema of written Parquet files. REQUIRED columns are not nullable: BigQuery takes the mode from the file."""
    return pa.schema([arrow_field(c) for c in columns])


def arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, arrow_type(column), nullable=column.mode is not ColumnMode.REQUIRED)


def arrow_type(column: Column) -> pa.DataType:
    is_struct = column.type == STRUCT
    inner = pa.struct([arrow_field(f) for f in column.fields]) if is_struct else SCALARS[column.type].in_arrow
    return pa.list_(pa.field("element", inner)) if column.mode is ColumnMode.REPEATED else inner


def text_columns(columns: Iterable[Column]) -> list[str]:
    """The names of those columns that have one text in each row."""
    return [column.name for column in columns if column.type == "STRING" and column.mode is not ColumnMode.REPEATED]
