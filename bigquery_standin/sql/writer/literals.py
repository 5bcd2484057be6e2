"""Writes literals, and the values of parameters and script variables."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue, TableField, quote_identifier, to_duckdb_type
from bigquery_standin.sql.runtime_errors import string_literal
from bigquery_standin.sql.writer.node_writer import Writer, handles

_INT64_MAX = 2**63 - 1


def value_literal(value: QueryValue) -> str:
    """DuckDB SQL of the value, cast to its type."""
    return f"CAST({_untyped(value.field, value.value)} AS {to_duckdb_type(value.field)})"


def _untyped(field: TableField, value: Any) -> str:
    if value is None:
        return "NULL"
    if field.mode == "REPEATED":
        element = TableField("", field.type, fields=field.fields)
        return f"[{', '.join(value_literal(QueryValue(element, item)) for item in value)}]"
    if field.type == "STRUCT":
        values = list(value.values()) if isinstance(value, dict) else list(value)
        names = [quote_identifier(child.name) for child in named_fields(field.fields)]
        literals = [value_literal(QueryValue(child, item)) for child, item in zip(field.fields, values, strict=True)]
        return f"struct_pack({', '.join(f'{n} := {v}' for n, v in zip(names, literals, strict=True))})"
    return _scalar(value)


def named_fields(fields: tuple[TableField, ...]) -> tuple[TableField, ...]:
    """The fields, each with a name, which DuckDB needs in a STRUCT. One without a name gets `_field_N`, as in BigQuery.

    Descriptions, policy tags and type parameters are left out.
    """
    return tuple(
        TableField(field.name or f"_field_{number}", field.type, field.mode, field.fields)
        for number, field in enumerate(fields, start=1)
    )


def _scalar(value: Any) -> str:
    match value:
        case bool() | int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else string_literal(str(value))
        case str():
            return string_literal(value)
        case bytes():
            return bytes_literal(value)
        case datetime():
            in_utc = value.astimezone(UTC) if value.tzinfo else value
            return string_literal(in_utc.isoformat(" "))
        case date() | time():
            return string_literal(value.isoformat())
        case Decimal():
            return string_literal(str(value))
    raise TypeError(f"A query value is [{type(value).__name__}], expected [a Python value of a BigQuery type]")


def bytes_literal(value: bytes) -> str:
    return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"


def int64_literal(value: int) -> str:
    """Raises InvalidQuery for a number outside the range of INT64."""
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise InvalidQuery(f"Invalid integer literal: {value}")
    return f"CAST({value} AS BIGINT)"


@handles(exp.Literal, supported_args="this is_string")
def _literal(writer: Writer, node: exp.Literal) -> str:
    if node.is_string:
        return string_literal(node.name)
    if node.name.isdigit():
        return int64_literal(int(node.name))
    return f"CAST('{node.name}' AS DOUBLE)"


@handles(exp.RawString, supported_args="this")
def _raw_string(writer: Writer, node: exp.RawString) -> str:
    return string_literal(node.name)


@handles(exp.ByteString, supported_args="this is_bytes")
def _byte_string(writer: Writer, node: exp.ByteString) -> str:
    if "\\" in node.name or not node.name.isascii():
        raise NotImplementedConstruct("bytes literal with escapes: use FROM_HEX")
    return bytes_literal(node.name.encode("ascii"))


@handles(exp.HexString, supported_args="this is_integer")
def _hex_number(writer: Writer, node: exp.HexString) -> str:
    return int64_literal(int(node.name, 16))


@handles(exp.Boolean, supported_args="this")
def _boolean(writer: Writer, node: exp.Boolean) -> str:
    return "TRUE" if node.this else "FALSE"


@handles(exp.Null, supported_args="")
def _null(writer: Writer, node: exp.Null) -> str:
    return "NULL"


@handles(exp.Parameter, exp.Placeholder, supported_args="this")
def _parameter(writer: Writer, node: exp.Parameter | exp.Placeholder) -> str:
    if isinstance(node.this, exp.Parameter):
        raise NotImplementedConstruct("system variable @@")
    return "NULL" if writer.check_only else value_literal(parameter_value(writer, node.name))


def parameter_value(writer: Writer, name: str) -> QueryValue:
    """The value of a query parameter. Raises InvalidQuery if the job has no such parameter."""
    for parameter, value in writer.parameters.items():
        if parameter.lower() == name.lower():
            return value
    kind = "Positional" if name.isdigit() else "Named"
    raise InvalidQuery(f"Query parameter '{name}' not found: {kind} parameters given are {sorted(writer.parameters)}")
