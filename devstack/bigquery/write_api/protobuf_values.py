"""Converts values of protocol buffer fields to Python values, by BigQuery type.

Source: "Supported protocol buffer and Arrow data types". A conversion raises ValueError, ArithmeticError or KeyError
for a value that the type does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from devstack.bigquery.clock import to_datetime
from devstack.bigquery.jobs.value_conversions import CONVERSIONS
from devstack.bigquery.sql.field_types import NUMERIC_PRECISION, NUMERIC_SCALE, TableField

Convert = Callable[[Any], Any]
TIMESTAMP_MESSAGE = "google.protobuf.Timestamp"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of a DATE, in days since 1970
# The lengths, in bits, of the fields of a TIME or DATETIME that is packed into an integer, from the lowest bits on. The
# last field, the hour of a TIME or the year of a DATETIME, takes the remaining bits.
_MICROSECOND_BITS, _SECOND_BITS, _MINUTE_BITS, _HOUR_BITS, _DAY_BITS, _MONTH_BITS = 20, 6, 6, 5, 5, 4
_NUMERIC_BOUND = Decimal(10) ** (NUMERIC_PRECISION - NUMERIC_SCALE)
_EXACT = Context(prec=2 * NUMERIC_PRECISION)  # Python's default has fewer digits than a NUMERIC


def _date(days: int) -> date:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise ValueError(f"a DATE has days from {_FIRST_DAY} to {_LAST_DAY} since 1970-01-01")
    return date(1970, 1, 1) + timedelta(days)


def _split(packed: int, *bits: int) -> list[int]:
    """The numbers in a bit field, from the lowest bits on. `bits`: the length of each but the last number."""
    numbers = []
    for length in bits:
        numbers.append(packed & ((1 << length) - 1))
        packed >>= length
    return [*numbers, packed]


def _time(packed: int) -> time:
    microsecond, second, minute, hour = _split(packed, _MICROSECOND_BITS, _SECOND_BITS, _MINUTE_BITS)
    return time(hour, minute, second, microsecond)


def _datetime(packed: int) -> datetime:
    microsecond, second, minute, hour, day, month, year = _split(
        packed, _MICROSECOND_BITS, _SECOND_BITS, _MINUTE_BITS, _HOUR_BITS, _DAY_BITS, _MONTH_BITS
    )
    return datetime.combine(date(year, month, day), time(hour, minute, second, microsecond))


def _numeric(value: Decimal) -> Decimal:
    rounded = value.quantize(Decimal(1).scaleb(-NUMERIC_SCALE), ROUND_HALF_UP, _EXACT)
    if not -_NUMERIC_BOUND < rounded < _NUMERIC_BOUND:
        raise ValueError("a NUMERIC has at most 29 digits before the point")
    return rounded


def _numeric_of_bytes(content: bytes) -> Decimal:
    """From the unscaled number in two's complement, the lowest byte first."""
    return _numeric(Decimal(int.from_bytes(content, "little", signed=True)).scaleb(-NUMERIC_SCALE, _EXACT))


def _same(value: Any) -> Any:
    return value


def _numeric_of_number(value: float | str) -> Decimal:
    """From a number, or from text with one."""
    return _numeric(Decimal(str(value)))


_INTEGERS = ("int32", "int64", "uint32")
# By type of the column, then by kind of the field (`kind_of`).
_CONVERSIONS: dict[str, dict[str, Convert]] = {
    "BOOL": dict.fromkeys(("bool", *_INTEGERS, "uint64"), bool),
    "BYTES": {"bytes": _same, "string": str.encode},
    "DATE": {"int32": _date, "int64": _date, "string": CONVERSIONS["DATE"]},
    "DATETIME": {"string": CONVERSIONS["DATETIME"], "int64": _datetime},
    "TIME": {"string": CONVERSIONS["TIME"], "int64": _time},
    "FLOAT64": {"double": _same, "float": _same},
    "INT64": {**dict.fromkeys(_INTEGERS, _same), "enum": _same},
    "NUMERIC": {
        **dict.fromkeys((*_INTEGERS, "uint64", "double", "float", "string"), _numeric_of_number),
        "bytes": _numeric_of_bytes,
    },
    "STRING": {"string": _same},
    "TIMESTAMP": {
        **dict.fromkeys(_INTEGERS, to_datetime),
        TIMESTAMP_MESSAGE: lambda value: to_datetime(value.ToMicroseconds()),
    },
}
# The wrapper messages of google.protobuf: the kind of their value, and the types of columns that take them.
_WRAPPERS = {
    "google.protobuf.BoolValue": ("bool", {"BOOL"}),
    "google.protobuf.BytesValue": ("bytes", {"BYTES", "NUMERIC"}),
    "google.protobuf.DoubleValue": ("double", {"FLOAT64"}),
    "google.protobuf.FloatValue": ("float", {"FLOAT64"}),
    "google.protobuf.Int32Value": ("int32", {"INT64"}),
    "google.protobuf.Int64Value": ("int64", {"INT64"}),
    "google.protobuf.UInt32Value": ("uint32", {"INT64"}),
    "google.protobuf.StringValue": ("string", {"STRING"}),
}
_KINDS = {
    FieldDescriptor.CPPTYPE_INT32: "int32",
    FieldDescriptor.CPPTYPE_INT64: "int64",
    FieldDescriptor.CPPTYPE_UINT32: "uint32",
    FieldDescriptor.CPPTYPE_UINT64: "uint64",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_ENUM: "enum",
    FieldDescriptor.CPPTYPE_STRING: "string",
}


def kind_of(field: FieldDescriptor) -> str:
    """The type of a field as BigQuery's documentation names it, such as `int64`; of a message its full name."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    return "bytes" if field.type == FieldDescriptor.TYPE_BYTES else _KINDS[field.cpp_type]


def conversion(field: FieldDescriptor, column: TableField) -> Convert | None:
    """The function that converts the field's values to the column's type; None if BigQuery does not convert them.

    The column must not be a STRUCT.
    """
    kind = kind_of(field)
    if column.type == "STRING" and field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name
    if kind not in _WRAPPERS:
        return _CONVERSIONS[column.type].get(kind)
    inner, types = _WRAPPERS[kind]
    if column.type not in types:
        return None
    convert = _CONVERSIONS[column.type][inner]
    return lambda wrapped: convert(wrapped.value)
