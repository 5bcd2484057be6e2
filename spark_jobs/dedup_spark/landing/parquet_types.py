"""Defines which Parquet types may hold the values of a BigQuery type, and as which types Spark reads them.

Only leaf columns, which have no columns inside, have such a type: a physical type, such as INT64, and perhaps an
annotation with a logical type, such as Timestamp.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark

# BigQuery's NUMERIC is DECIMAL(38, 9): 29 digits before the point, 9 after it.
_NUMERIC_INTEGER_DIGITS = 29
_NUMERIC_SCALE = 9

_SIGNED = {8: spark.ByteType(), 16: spark.ShortType(), 32: spark.IntegerType(), 64: spark.LongType()}
# Each unsigned type is read as the next wider signed type. Unsigned 64 bits do not fit INT64.
_UNSIGNED = {8: spark.ShortType(), 16: spark.IntegerType(), 32: spark.LongType()}
# Spark types by declared type and physical type, for leaves that are not annotated.
_NOT_ANNOTATED = {
    ("BOOL", "BOOLEAN"): spark.BooleanType(),
    ("BYTES", "BYTE_ARRAY"): spark.BinaryType(),
    ("BYTES", "FIXED_LEN_BYTE_ARRAY"): spark.BinaryType(),
    ("FLOAT64", "DOUBLE"): spark.DoubleType(),
    ("FLOAT64", "FLOAT"): spark.FloatType(),
    ("INT64", "INT32"): spark.IntegerType(),
    ("INT64", "INT64"): spark.LongType(),
    ("NUMERIC", "INT32"): spark.IntegerType(),
    ("NUMERIC", "INT64"): spark.LongType(),
}
_PARQUET_TYPES = {
    "BOOL": "BOOLEAN",
    "BYTES": "BYTE_ARRAY without annotation",
    "DATE": "INT32 annotated DATE",
    "DATETIME": "INT64 annotated TIMESTAMP, not adjusted to UTC, milliseconds or microseconds",
    "FLOAT64": "DOUBLE or FLOAT",
    "INT64": "INT64 or INT32, unsigned up to 32 bits",
    "NUMERIC": "DECIMAL of at most 29 digits before and 9 after the point, or what INT64 accepts",
    "STRING": "BYTE_ARRAY annotated STRING",
    "TIMESTAMP": "INT64 annotated TIMESTAMP, adjusted to UTC, milliseconds or microseconds",
}


def spark_type_of(
    declared: str, physical: str, logical: dict[str, Any], *, exported: bool = False
) -> spark.DataType | None:
    """The Spark type with which a leaf is read; None if the leaf does not contain the declared type.

    `logical` is the JSON form of the logical type. `exported`: BigQuery wrote the file. BigQuery annotates a
    TIMESTAMP as not adjusted to UTC, although its values are.
    """
    match declared, logical["Type"]:
        case _, "None":
            return _NOT_ANNOTATED.get((declared, physical))
        case "DATE", "Date":
            return spark.DateType()
        case (("INT64" | "NUMERIC"), "Int"):
            return (_SIGNED if logical["isSigned"] else _UNSIGNED).get(logical["bitWidth"])
        case "NUMERIC", "Decimal":
            return _decimal(logical["precision"], logical["scale"])
        case "STRING", "String" | "Enum":
            return spark.StringType()
        case (("TIMESTAMP" | "DATETIME"), "Timestamp"):
            # Nanoseconds are refused: Spark does not read them, and BigQuery would truncate them.
            has_known_unit = logical["timeUnit"] in ("milliseconds", "microseconds")
            is_adjusted = declared == "TIMESTAMP"
            if has_known_unit and (logical["isAdjustedToUTC"] is is_adjusted or (exported and is_adjusted)):
                return spark.TimestampType() if declared == "TIMESTAMP" else spark.TimestampNTZType()
    return None


def _decimal(precision: int, scale: int) -> spark.DataType | None:
    fits = scale <= _NUMERIC_SCALE and precision - scale <= _NUMERIC_INTEGER_DIGITS
    return spark.DecimalType(precision, scale) if fits else None


def describe_expected(declared: str) -> str:
    """A declared type with the Parquet types that hold it, for messages."""
    parquet_types = _PARQUET_TYPES.get(declared)
    return f"[{declared}] ({parquet_types})" if parquet_types else f"[{declared}]"


def describe_leaf(leaf: Any) -> str:
    """A leaf's type, for messages: `INT64 Timestamp(isAdjustedToUTC=False, …)`."""
    return f"{leaf.physical_type} {leaf.logical_type}".removesuffix(" None")
