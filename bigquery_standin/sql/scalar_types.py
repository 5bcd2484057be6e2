"""Lists BigQuery's scalar types: their names here and in DuckDB and Arrow, their parameters, and how their values are
read and written.

A conversion from text or JSON raises ValueError, TypeError or ArithmeticError if the value does not have the type.
Sources: BigQuery's "Data types"; REST resource tables, `maxLength`, `precision` and `scale`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.clock import MICROSECONDS, from_datetime, to_datetime

NUMERIC_PRECISION, NUMERIC_SCALE = 38, 9
_REFUSED_TYPES = ("BIGNUMERIC", "GEOGRAPHY", "INTERVAL", "JSON", "RANGE", "TIME")


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, Decimal) and value != int(value)):
        raise ValueError(value)
    return int(_number(value))


def _number(value: Any) -> Any:
    """The value. Raises ValueError for true, false and 1_000, which Python reads as numbers and BigQuery does not."""
    if "_" in str(value) or isinstance(value, bool):
        raise ValueError(value)
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word == "true"


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _timestamp(value: Any) -> datetime:
    """The value of ISO text, which is in UTC if it has no time zone, or of a number of seconds since 1970."""
    if isinstance(value, int | Decimal):
        return to_datetime(int(Decimal(_number(value)) * MICROSECONDS))
    parsed = datetime.fromisoformat(str(value).removesuffix(" UTC"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _datetime(value: Any) -> datetime:
    parsed = datetime.fromisoformat(value)
    if parsed.tzinfo is not None:
        raise ValueError(value)
    return parsed


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(value)


def _numeric_text(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _iso_text(value: Any) -> str:
    return str(value.isoformat())


@dataclass(frozen=True)
class ScalarType:
    """One type. `duckdb`: its name there. `parse`: a Python value from JSON or a query parameter. `encode`: the text
    of a Python value in an answer. `api`: the REST API's older name, if that is another one.
    """

    duckdb: str
    arrow: pa.DataType
    parse: Callable[[Any], Any]
    encode: Callable[[Any], str]
    api: str | None = None


SCALARS = {
    "INT64": ScalarType("BIGINT", pa.int64(), _integer, str, "INTEGER"),
    "FLOAT64": ScalarType("DOUBLE", pa.float64(), lambda value: float(_number(value)), _float_text, "FLOAT"),
    "BOOL": ScalarType("BOOLEAN", pa.bool_(), _boolean, lambda value: "true" if value else "false", "BOOLEAN"),
    "STRING": ScalarType("VARCHAR", pa.string(), _text, str),
    "BYTES": ScalarType(
        "BLOB",
        pa.binary(),
        lambda value: base64.b64decode(value, validate=True),
        lambda value: base64.b64encode(value).decode(),
    ),
    "DATE": ScalarType("DATE", pa.date32(), date.fromisoformat, _iso_text),
    "DATETIME": ScalarType("TIMESTAMP", pa.timestamp("us"), _datetime, _iso_text),
    "TIMESTAMP": ScalarType(
        "TIMESTAMPTZ", pa.timestamp("us", tz="UTC"), _timestamp, lambda value: str(from_datetime(value))
    ),
    "NUMERIC": ScalarType(
        f"DECIMAL({NUMERIC_PRECISION},{NUMERIC_SCALE})",
        pa.decimal128(NUMERIC_PRECISION, NUMERIC_SCALE),
        lambda value: Decimal(str(_number(value))),
        _numeric_text,
    ),
}
API_NAMES = {"STRUCT": "RECORD", **{name: scalar.api for name, scalar in SCALARS.items() if scalar.api}}
_SYNONYMS = {
    **{api: name for name, api in API_NAMES.items()},
    **dict.fromkeys(("INT", "SMALLINT", "BIGINT", "TINYINT", "BYTEINT"), "INT64"),
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
_FROM_DUCKDB_IDS = {
    **dict.fromkeys(
        ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint"), "INT64"
    ),
    **dict.fromkeys(("float", "double"), "FLOAT64"),
    "boolean": "BOOL",
    "varchar": "STRING",
    "blob": "BYTES",
    "date": "DATE",
    "timestamp": "DATETIME",
    "timestamp with time zone": "TIMESTAMP",
    "decimal": "NUMERIC",
    "null": "INT64",  # as BigQuery types an untyped NULL
}


def canonical_type(name: str) -> str:
    """The SQL name of a scalar type or STRUCT, from any of its names.

    Raises NotImplementedConstruct for an unsupported type, and Invalid for an unknown one.
    """
    upper = name.strip().upper()
    upper = _SYNONYMS.get(upper, upper)
    if upper in _REFUSED_TYPES:
        raise NotImplementedConstruct(f"type {upper}")
    if upper not in SCALARS and upper != "STRUCT":
        raise Invalid(f"Type not found: [{name}], expected one of [{', '.join((*SCALARS, 'STRUCT'))}].")
    return upper


def scalar_from_duckdb(identifier: str) -> str | None:
    """The scalar type of a DuckDB type; None if there is none."""
    return _FROM_DUCKDB_IDS.get(identifier)


def scalar_from_arrow(name: str, kind: pa.DataType) -> str:
    """The scalar type of a Parquet column `name`. Raises NotImplementedConstruct if there is none."""
    if pa.types.is_timestamp(kind):
        # By default pyarrow reads Parquet's INT96, a TIMESTAMP for BigQuery, as nanoseconds without a time zone.
        return "TIMESTAMP" if kind.tz is not None or kind.unit == "ns" else "DATETIME"
    if pa.types.is_decimal(kind):
        if kind.scale > NUMERIC_SCALE or kind.precision - kind.scale > NUMERIC_PRECISION - NUMERIC_SCALE:
            raise NotImplementedConstruct(f"type BIGNUMERIC (decimal({kind.precision},{kind.scale}) of column {name})")
        return "NUMERIC"
    types = pa.types
    rules: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
        ("BOOL", (types.is_boolean,)),
        ("INT64", (types.is_integer, types.is_null)),
        ("FLOAT64", (types.is_floating,)),
        ("STRING", (types.is_string,)),
        ("BYTES", (types.is_binary, types.is_fixed_size_binary)),
        ("DATE", (types.is_date,)),
    )
    for type_name, tests in rules:
        if any(matches(kind) for matches in tests):
            return type_name
    raise NotImplementedConstruct(f"Arrow type {kind} of column {name}")


Parameters = tuple[tuple[str, str], ...]  # the properties maxLength, or precision and scale, as in the REST API
PARAMETER_NAMES = ("maxLength", "precision", "scale")


def parameters_from_sql(type_name: str, values: Sequence[str]) -> Parameters:
    """The parameters of STRING(L), BYTES(L) or NUMERIC(P[, S])."""
    return tuple(zip(("precision", "scale") if type_name == "NUMERIC" else ("maxLength",), values, strict=False))


def with_parameters(type_name: str, parameters: Parameters) -> str:
    """The type in SQL: `NUMERIC(10, 2)`."""
    return f"{type_name}({', '.join(value for _, value in parameters)})" if parameters else type_name
