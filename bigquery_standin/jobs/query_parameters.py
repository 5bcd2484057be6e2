"""Parses a request's `queryParameters` into typed values. Supported are named scalars and arrays of scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue, TableField
from bigquery_standin.sql.scalar_types import SCALARS, canonical_type

Parameters = dict[str, QueryValue]


def parse_parameters(items: Sequence[Mapping[str, Any]], mode: str | None) -> Parameters:
    """The values by lower-case name. `mode`: the request's `parameterMode`.

    Raises Invalid for wrong parameters and for parameters without a mode, NotImplementedConstruct for a type or value
    that is not supported. BigQuery's page "Run parameterized queries" says to set `parameterMode`. It does not say what
    happens without it.
    """
    if mode == "POSITIONAL":
        raise NotImplementedConstruct("positional query parameters")
    if mode != "NAMED" and (items or mode):
        raise Invalid(f"Value of parameterMode is [{mode}], expected [NAMED] or [POSITIONAL].")
    parameters: Parameters = {}
    for position, item in enumerate(items, start=1):
        name = str(item.get("name") or "").lower()
        if not name or name in parameters:
            raise Invalid(f"Query parameter [{position}] has name [{name}]: name each one once.")
        parameters[name] = _value(name, item.get("parameterType") or {}, item.get("parameterValue") or {})
    return parameters


def _value(name: str, kind: Mapping[str, Any], value: Mapping[str, Any]) -> QueryValue:
    is_array = kind.get("type") == "ARRAY"
    type_name = str((kind.get("arrayType") or {} if is_array else kind).get("type", ""))
    if not type_name:
        raise Invalid(f"Query parameter [{name}] lacks parameterType.type, or the type of its elements.")
    if type_name in ("ARRAY", "STRUCT", "RECORD", "RANGE"):
        raise NotImplementedConstruct(f"query parameter of type {'ARRAY of ' if is_array else ''}{type_name}")
    column = TableField("", canonical_type(type_name), "REPEATED" if is_array else "NULLABLE")
    values = [_scalar(name, column.type, one) for one in (value.get("arrayValues") or () if is_array else [value])]
    return QueryValue(column, values if is_array else values[0])


def _scalar(name: str, type_name: str, value: Mapping[str, Any]) -> Any:
    text = value.get("value")
    try:
        return None if text is None else SCALARS[type_name].parse(str(text))
    except (ValueError, ArithmeticError) as error:
        raise Invalid(f"Invalid value for query parameter [{name}]: [{text}] is no {type_name}.") from error
