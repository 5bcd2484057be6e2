"""BigQuery's column types as Spark types and as Arrow types, and the check that the job supports a table's types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as spark

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import NUMERIC_PRECISION, NUMERIC_SCALE, Column, ColumnMode, TableContract


@dataclass(frozen=True)
class ScalarType:
    """The Spark type that holds a BigQuery type, and the Arrow type in which the job writes it to Parquet.

    `may_be_key`: whether a key column may have the type.
    """

    in_spark: spark.DataType
    in_arrow: pa.DataType
    may_be_key: bool


SCALARS = {
    "BOOL": ScalarType(spark.BooleanType(), pa.bool_(), True),
    "BYTES": ScalarType(spark.BinaryType(), pa.binary(), True),
    "DATE": ScalarType(spark.DateType(), pa.date32(), True),
    "DATETIME": ScalarType(spark.TimestampNTZType(), pa.timestamp("us"), False),
    "FLOAT64": ScalarType(spark.DoubleType(), pa.float64(), False),
    "INT64": ScalarType(spark.LongType(), pa.int64(), True),
    "NUMERIC": ScalarType(
        spark.DecimalType(NUMERIC_PRECISION, NUMERIC_SCALE), pa.decimal128(NUMERIC_PRECISION, NUMERIC_SCALE), True
    ),
    "STRING": ScalarType(spark.StringType(), pa.string(), True),
    "TIMESTAMP": ScalarType(spark.TimestampType(), pa.timestamp("us", tz="UTC"), True),
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
    return pa.schema([_arrow_field(c) for c in columns])


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, arrow_type(column), nullable=column.mode is not ColumnMode.REQUIRED)


def arrow_type(column: Column) -> pa.DataType:
    is_struct = column.type == STRUCT
    inner = pa.struct([_arrow_field(f) for f in column.fields]) if is_struct else SCALARS[column.type].in_arrow
    return pa.list_(pa.field("element", inner)) if column.mode is ColumnMode.REPEATED else inner


def require_supported(table: TableContract) -> None:
    """Raise ConfigurationError if the job does not support the table's columns.

    Each type must be in SCALARS, or be a STRUCT of such types. A key must have a type that may be a key, and must not
    be REPEATED. The partition column must be a DATE and a key, the snapshot id an INT64 and no key.
    """
    for column in table.columns:
        _require_supported_type(column, column.name)
    for name in table.keys:
        key = table.column(name)
        scalar = SCALARS.get(key.type)
        if scalar is None or not scalar.may_be_key or key.mode is ColumnMode.REPEATED:
            allowed = sorted(name for name, scalar_type in SCALARS.items() if scalar_type.may_be_key)
            raise ConfigurationError(
                f"Key column [{name}] is [{key.type} {key.mode}], expected one of {allowed}, not repeated: "
                f"declare another key in the feed file."
            )
    for name, expected in ((table.partition_column, "DATE"), (table.snapshot_id_column, "INT64")):
        if table.column(name).type != expected:
            raise ConfigurationError(
                f"Column [{name}] is [{table.column(name).type}], expected [{expected}]: correct the feed file."
            )
    if table.partition_column not in table.keys or table.snapshot_id_column in table.keys:
        raise ConfigurationError(
            f"Keys are {list(table.keys)}, expected to contain [{table.partition_column}] and not "
            f"[{table.snapshot_id_column}]: correct the feed file."
        )


def _require_supported_type(column: Column, path: str) -> None:
    if column.type == STRUCT and column.fields:
        for inner in column.fields:
            _require_supported_type(inner, f"{path}.{inner.name}")
    elif column.type not in SCALARS:
        raise ConfigurationError(
            f"Column [{path}] is [{column.type}], expected one of {[*SCALARS, 'STRUCT with fields']}: "
            f"declare a type that Parquet, Spark and BigQuery share."
        )
