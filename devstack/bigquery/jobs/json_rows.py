"""Newline-delimited JSON as rows of a table, with BigQuery's conversions and refusals."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from datetime import time as day_time
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from devstack.bigquery.errors import Invalid
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.arrow_schema import arrow_schema, conform


def parse_rows(uri: str, content: bytes, columns: Sequence[TableField]) -> pa.Table:
    rows = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line, parse_float=Decimal)
            if not isinstance(document, dict):
                raise ValueError(f"expected a JSON object, found [{type(document).__name__}]")
            rows.append(_record(document, columns, ""))
        except (ValueError, InvalidOperation, binascii.Error) as error:
            raise Invalid(
                f"Error while reading data, error message: JSON parsing error in row [{number}]: {error}. File: {uri}"
            ) from error
    table = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
    return conform(table, columns)


def _record(document: Mapping[str, Any], columns: Sequence[TableField], prefix: str) -> dict[str, Any]:
    given = {name.lower(): value for name, value in document.items()}
    known = {column.name.lower() for column in columns}
    if unknown := [name for name in document if name.lower() not in known]:
        raise ValueError(f"No such field: {prefix}{unknown[0]}")
    return {column.name: _value(given.get(column.name.lower()), column, prefix) for column in columns}


def _value(value: Any, column: TableField, prefix: str) -> Any:
    name = prefix + column.name
    if column.mode == "REPEATED":
        if value is None:
            return []
        if not isinstance(value, list):
            raise ValueError(f"Field {name} is an array, found [{value!r}]")
        return [_scalar(element, column, name) for element in value]
    return None if value is None else _scalar(value, column, name)


def _scalar(value: Any, column: TableField, name: str) -> Any:
    if column.type == "STRUCT":
        if not isinstance(value, dict):
            raise ValueError(f"Field {name} is a record, found [{value!r}]")
        return _record(value, column.fields, f"{name}.")
    try:
        return _CONVERSIONS[column.type](value)
    except (ValueError, TypeError, InvalidOperation, binascii.Error) as error:
        raise ValueError(f"Could not convert value [{value!r}] to {column.type}. Field: {name}") from error


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, Decimal) and value != int(value)):
        raise ValueError(value)
    return int(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[_known_word(value)]


def _known_word(value: Any) -> str:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _timestamp(value: Any) -> datetime:
    """Text in ISO form (UTC when it names no zone) or seconds since 1970."""
    if isinstance(value, int | Decimal):
        microseconds = int(Decimal(value) * 1_000_000)
        seconds, rest = divmod(microseconds, 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
    parsed = datetime.fromisoformat(str(value).removesuffix(" UTC"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _naive(value: Any) -> datetime:
    parsed = datetime.fromisoformat(value)
    if parsed.tzinfo is not None:
        raise ValueError(value)
    return parsed


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "INT64": _integer,
    "FLOAT64": float,
    "BOOL": _boolean,
    "STRING": _text,
    "BYTES": lambda value: base64.b64decode(value, validate=True),
    "DATE": date.fromisoformat,
    "DATETIME": _naive,
    "TIME": day_time.fromisoformat,
    "TIMESTAMP": _timestamp,
    "NUMERIC": lambda value: Decimal(str(value)),
}
