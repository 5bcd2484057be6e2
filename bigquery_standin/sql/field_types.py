"""Defines BigQuery types and fields, converts them to and from DuckDB types, and makes them from Arrow types.

A `TableField` describes a column, a STRUCT field or a query parameter. Its `type` is an SQL name (INT64, FLOAT64, BOOL,
STRUCT). Only `to_api` and `from_api` use the REST API's older names (INTEGER, FLOAT, BOOLEAN, RECORD).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot.dialects.bigquery import BigQuery

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.scalar_types import (
    API_NAMES,
    PARAMETER_NAMES,
    SCALARS,
    Parameters,
    canonical_type,
    scalar_from_arrow,
    scalar_from_duckdb,
    with_parameters,
)

MAXIMUM_CLUSTERING_COLUMNS = 4
CLUSTERING_TYPES = ("BOOL", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP")
_SUPPORTED_KEYS = ("name", "type", "mode", "fields", "description", "policyTags", *PARAMETER_NAMES)
MODES = ("NULLABLE", "REQUIRED", "REPEATED")
MAXIMUM_POLICY_TAGS = 1  # of one column
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_POLICY_TAG = re.compile(r"projects/[^/]+/locations/[^/]+/taxonomies/[^/]+/policyTags/[^/]+")


@dataclass(frozen=True)
class TableField:
    """BigQuery's TableFieldSchema with SQL type names. `policy_tags` are resource names.

    `parameters`: those of STRING(L), BYTES(L) and NUMERIC(P, S), which are stored, but never applied. Only columns have
    them, not results of expressions.
    """

    name: str
    type: str
    mode: str = "NULLABLE"
    fields: tuple[TableField, ...] = ()
    description: str | None = None
    policy_tags: tuple[str, ...] = ()
    parameters: Parameters = ()

    def to_api(self) -> dict[str, Any]:
        api: dict[str, Any] = {"name": self.name, "type": API_NAMES.get(self.type, self.type), "mode": self.mode}
        if self.fields:
            api["fields"] = [child.to_api() for child in self.fields]
        if self.description is not None:
            api["description"] = self.description
        if self.policy_tags:
            api["policyTags"] = {"names": list(self.policy_tags)}
        return api | dict(self.parameters)

    @classmethod
    def from_api(cls, api: Mapping[str, Any]) -> TableField:
        """Parses a TableFieldSchema.

        Raises Invalid for a wrong field, NotImplementedConstruct for an unsupported key or type.
        """
        name = api.get("name")
        if not isinstance(name, str) or not name or "type" not in api:
            raise Invalid(f"Schema field [{dict(api)}] lacks [name] or [type]: give both.")
        for key in api:
            if key not in _SUPPORTED_KEYS:
                raise NotImplementedConstruct(f"schema field property {key} of {name}")
        mode = str(api.get("mode") or "NULLABLE").upper()
        if mode not in MODES:
            raise Invalid(
                f"Mode of field [{name}] is [{mode}], expected one of [{', '.join(MODES)}]: correct the schema."
            )
        type_name = canonical_type(str(api["type"]))
        fields = tuple(cls.from_api(child) for child in api.get("fields") or ())
        if (type_name == "STRUCT") != bool(fields):
            raise Invalid(
                f"Field [{name}] is of type [{type_name}] with [{len(fields)}] nested fields: a RECORD needs them, no "
                "other type has them."
            )
        tags = _policy_tags(name, api)
        parameters = tuple((key, str(api[key])) for key in PARAMETER_NAMES if api.get(key) is not None)
        return cls(name, type_name, mode, fields, api.get("description"), tags, parameters)

    def first_policy_tag(self) -> str | None:
        """The policy tag of the column, or of the first nested field that has one; None without any."""
        if self.policy_tags:
            return self.policy_tags[0]
        return next((tag for child in self.fields if (tag := child.first_policy_tag()) is not None), None)

    @property
    def has_parameters(self) -> bool:
        """Whether the column or one of its nested fields has a parameterized type."""
        return bool(self.parameters) or any(child.has_parameters for child in self.fields)

    def sql_type(self, *, parameterized: bool = False) -> str:
        """The type in SQL: `ARRAY<STRUCT<a INT64, b STRING>>`.

        `parameterized`: with the parameters, as INFORMATION_SCHEMA.COLUMNS.data_type has it.
        """
        inner = with_parameters(self.type, self.parameters) if parameterized else self.type
        if self.type == "STRUCT":
            types = ((child.name, child.sql_type(parameterized=parameterized)) for child in self.fields)
            inner = f"STRUCT<{', '.join(f'{_sql_name(name)} {kind}'.strip() for name, kind in types)}>"
        return f"ARRAY<{inner}>" if self.mode == "REPEATED" else inner


@dataclass(frozen=True)
class QueryValue:
    """The value of an expression, a parameter or a variable: its type, as an unnamed field, and its Python value.

    Variables are scalars, parameters also lists of scalars: int, float, bool, str, bytes, date, datetime (aware
    for TIMESTAMP, naive for DATETIME), Decimal, or None for NULL.
    """

    field: TableField
    value: Any

    @classmethod
    def scalar(cls, type_name: str, value: Any) -> QueryValue:
        return cls(TableField("", canonical_type(type_name)), value)


def _sql_name(name: str) -> str:
    """A name as SQL text, in backticks if it needs them."""
    needs_backticks = name and (not _PLAIN_NAME.fullmatch(name) or name.lower() in BigQuery.Generator.RESERVED_KEYWORDS)
    return f"`{name}`" if needs_backticks else name


def _policy_tags(name: str, api: Mapping[str, Any]) -> tuple[str, ...]:
    """The policy tags in a TableFieldSchema. Raises Invalid for more than one, and for one that is no resource name.

    Source: REST resource tables, TableFieldSchema.policyTags.
    """
    tags = tuple((api.get("policyTags") or {}).get("names") or ())
    if len(tags) > MAXIMUM_POLICY_TAGS:
        raise Invalid(f"Field [{name}] has [{len(tags)}] policy tags, allowed [{MAXIMUM_POLICY_TAGS}].")
    for tag in tags:
        if not _POLICY_TAG.fullmatch(tag):
            raise Invalid(
                f"Policy tag [{tag}] of field [{name}] is not a resource name, expected "
                "[projects/P/locations/L/taxonomies/T/policyTags/N]."
            )
    return tags


def quote_identifier(name: str) -> str:
    """A name as a quoted DuckDB identifier."""
    return '"' + name.replace('"', '""') + '"'


def to_duckdb_type(field: TableField) -> str:
    """The DuckDB SQL type of a field and its mode: `STRUCT("a" BIGINT)[]`."""
    if field.type == "STRUCT":
        inner = (
            f"STRUCT({', '.join(f'{quote_identifier(child.name)} {to_duckdb_type(child)}' for child in field.fields)})"
        )
    else:
        inner = SCALARS[field.type].duckdb
    return f"{inner}[]" if field.mode == "REPEATED" else inner


def field_from_duckdb(name: str, duckdb_type: Any) -> TableField:
    """The field of a `DuckDBPyType`. Raises NotImplementedConstruct for a type without a supported BigQuery type."""
    identifier = str(duckdb_type.id)
    if identifier in ("list", "array"):
        return _repeated(name, field_from_duckdb(name, duckdb_type.children[0][1]))
    if identifier == "struct":
        return TableField(name, "STRUCT", fields=tuple(field_from_duckdb(n, t) for n, t in duckdb_type.children))
    scalar = scalar_from_duckdb(identifier)
    if scalar is None:
        raise NotImplementedConstruct(f"result type {duckdb_type!s} of column {name}")
    return TableField(name, scalar)


def field_from_arrow(column: pa.Field) -> TableField:
    """The column that a load job without a schema creates for a column of a Parquet file.

    There is one exception: a timestamp without a time zone, in milli- or microseconds, is a TIMESTAMP there and a
    DATETIME here. Raises NotImplementedConstruct for an Arrow type without a supported BigQuery type.
    """
    kind = column.type
    if pa.types.is_list(kind):
        return _repeated(column.name, field_from_arrow(kind.value_field))
    mode = "NULLABLE" if column.nullable else "REQUIRED"
    if pa.types.is_struct(kind):
        return TableField(column.name, "STRUCT", mode, tuple(field_from_arrow(child) for child in kind))
    return TableField(column.name, scalar_from_arrow(column.name, kind), mode)


def _repeated(name: str, element: TableField) -> TableField:
    if element.mode == "REPEATED":
        raise NotImplementedConstruct(f"array of arrays in column {name}")
    return replace(element, name=name, mode="REPEATED")
