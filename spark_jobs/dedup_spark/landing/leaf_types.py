"""Which Parquet leaf types hold a BigQuery type, and how Spark reads them. Anything else changed the column's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as spark

# BigQuery's NUMERIC is DECIMAL(38, 9): 29 digits before the point, 9 after it.
_NUMERIC_INTEGER_DIGITS = 29
_NUMERIC_SCALE = 9

_SIGNED = {8: spark.ByteType(), 16: spark.ShortType(), 32: spark.IntegerType(), 64: spark.LongType()}
# The next wider type holds each of them; unsigned 64 bits do not fit INT64.
_UNSIGNED = {8: spark.ShortType(), 16: spark.IntegerType(), 32: spark.LongType()}
_PLAIN = {
    ("BOOL", "BOOLEAN"): spark.BooleanType(),
    ("BYTES", "BYTE_ARRAY"): spark.BinaryType(),
    ("BYTES", "FIXED_LEN_BYTE_ARRAY"): spark.BinaryType(),
    ("FLOAT64", "DOUBLE"): spark.DoubleType(),
    ("FLOAT64", "FLOAT"): spark.FloatType(),
    ("INT64", "INT32"): spark.IntegerType(),
    ("INT64", "INT64"): spark.LongType(),
}
_PARQUET_FORMS = {
    "BOOL": "BOOLEAN",
    "BYTES": "BYTE_ARRAY without annotation",
    "DATE": "INT32 annotated DATE",
    "DATETIME": "INT64 annotated TIMESTAMP, not adjusted to UTC, milliseconds or microseconds",
    "FLOAT64": "DOUBLE or FLOAT",
    "INT64": "INT64 or INT32, unsigned up to 32 bits",
    "NUMERIC": "DECIMAL of at most 29 digits before and 9 after the point",
    "STRING": "BYTE_ARRAY annotated STRING",
    "TIMESTAMP": "INT64 annotated TIMESTAMP, adjusted to UTC, milliseconds or microseconds",
}


def leaf_type(declared: str, physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    """The Spark type that reads the leaf as it is; None when the leaf does not hold the declared type."""
    if logical["Type"] == "None":
        return _PLAIN.get((declared, physical))
    annotated = _ANNOTATED.get(declared)
    return annotated(physical, logical) if annotated else None


def expected_text(declared: str) -> str:
    """A declared type for a message, with the Parquet types that hold it."""
    form = _PARQUET_FORMS.get(declared)
    return f"[{declared}] ({form})" if form else f"[{declared}]"


def leaf_text(leaf: Any) -> str:
    """A leaf's type for a message: `INT64 Timestamp(isAdjustedToUTC=False, …)`."""
    return f"{leaf.physical_type} {leaf.logical_type}".removesuffix(" None")


def _integer(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    if logical["Type"] != "Int":
        return None
    return (_SIGNED if logical["isSigned"] else _UNSIGNED).get(logical["bitWidth"])


def _date(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    return spark.DateType() if logical["Type"] == "Date" else None


def _string(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    return spark.StringType() if logical["Type"] in ("String", "Enum") else None


def _timestamp(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    return spark.TimestampType() if _is_time(logical, adjusted_to_utc=True) else None


def _datetime(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    return spark.TimestampNTZType() if _is_time(logical, adjusted_to_utc=False) else None


def _is_time(logical: dict[str, Any], *, adjusted_to_utc: bool) -> bool:
    """Nanoseconds are refused: Spark does not read them and BigQuery would cut them."""
    return (
        logical["Type"] == "Timestamp"
        and logical["isAdjustedToUTC"] is adjusted_to_utc
        and logical["timeUnit"] in ("milliseconds", "microseconds")
    )


def _numeric(physical: str, logical: dict[str, Any]) -> spark.DataType | None:
    if logical["Type"] != "Decimal":
        return None
    precision, scale = logical["precision"], logical["scale"]
    fits = scale <= _NUMERIC_SCALE and precision - scale <= _NUMERIC_INTEGER_DIGITS
    return spark.DecimalType(precision, scale) if fits else None


_ANNOTATED: dict[str, Callable[[str, dict[str, Any]], spark.DataType | None]] = {
    "DATE": _date,
    "DATETIME": _datetime,
    "INT64": _integer,
    "NUMERIC": _numeric,
    "STRING": _string,
    "TIMESTAMP": _timestamp,
}
