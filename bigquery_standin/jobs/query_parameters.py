"""Parses a request's `queryParameters` into typed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue, TableField
from bigquery_standin.sql.scalar_types import SCALARS, canonical_type

Parameters = dict[str, QueryValue]  # positional parameters are named "1", "2", …


def parse_parameters(items: Sequence[Mapping[str, Any]], mode: str | None) -> Parameters:
    """The values by lower-case name. `mode`: the request's `parameterMode`.

    Raises Invalid for wrong parameters and for parameters without a mode, NotImplementedConstruct for a type or value
    that is not supported. BigQuery's page "Run parameterized queries" says to set `parameterMode`. It does not say what
    happens without it.
    """
    if mode not in ("NAMED", "POSITIONAL") and (items or mode):
        raise Invalid(f"Value of parameterMode is [{mode}], expected [NAMED] or [POSITIONAL].")
    parameters: Parameters = {}
    for position, item in enumerate(items, start=1):
        name = item.get("name") or ""
        if bool(name) == (mode == "POSITIONAL"):
            raise Invalid(f"Query parameter [{position}] has name [{name}] in parameterMode [{mode}].")
        key = name.lower() or str(position)
        if key in parameters:
            raise Invalid(f"Query parameter [{key}] is given twice: name each one once.")
        column = _field("", item.get("parameterType") or {}, parameter=key)
        parameters[key] = QueryValue(column, _value(key, column, item.get("parameterValue") or {}))
    return parameters


def _field(name: str, kind: Mapping[str, Any], *, parameter: str) -> TableField:
    """The type `kind` as a column of this name. `parameter`: the parameter's name or position, for errors."""
    type_name = str(kind.get("type", ""))
    if type_name == "ARRAY":
        element = _field(name, kind.get("arrayType") or {}, parameter=parameter)
        if element.mode == "REPEATED":
            raise Invalid(f"Query parameter [{parameter}] is an array of arrays: nested arrays are not supported.")
        return TableField(name, element.type, "REPEATED", element.fields)
    if type_name in ("STRUCT", "RECORD"):
        children = tuple(
            _field(child.get("name", ""), child.get("type") or {}, parameter=parameter)
            for child in kind.get("structTypes") or ()
        )
        return TableField(name, "STRUCT", fields=children)
    if not type_name:
        raise Invalid(f"Query parameter [{parameter}] lacks parameterType.type, or the type of a nested field.")
    return TableField(name, canonical_type(type_name))


def _value(name: str, column: TableField, value: Mapping[str, Any]) -> Any:
    if "rangeValue" in value:
        raise NotImplementedConstruct("queryParameters.parameterValue.rangeValue")
    if column.mode == "REPEATED":
        element = TableField(column.name, column.type, "NULLABLE", column.fields)
        return [_value(name, element, item) for item in value.get("arrayValues") or ()]
    if column.type == "STRUCT":
        children = value.get("structValues") or {}
        return {child.name: _value(name, child, children.get(child.name) or {}) for child in column.fields}
    text = value.get("value")
    if text is None:
        return None
    try:
        return SCALARS[column.type].parse(str(text))
    except (ValueError, ArithmeticError) as error:
        raise Invalid(f"Invalid value for query parameter [{name}]: [{text}] is no {column.type}.") from error
