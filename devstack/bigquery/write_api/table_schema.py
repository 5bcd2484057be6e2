"""Converts a table's schema to a message of the Storage Write API."""

from __future__ import annotations

from collections.abc import Sequence

from google.cloud.bigquery_storage_v1.types import TableFieldSchema, TableSchema

from devstack.bigquery.sql.field_types import TableField

_TYPES = {"FLOAT64": "DOUBLE"}  # the only type with another name in this API than in SQL


def table_schema(columns: Sequence[TableField]) -> TableSchema:
    return TableSchema(fields=[_field(column) for column in columns])


def _field(column: TableField) -> TableFieldSchema:
    return TableFieldSchema(
        name=column.name,
        type_=getattr(TableFieldSchema.Type, _TYPES.get(column.type, column.type)),
        mode=getattr(TableFieldSchema.Mode, column.mode),
        fields=[_field(child) for child in column.fields],
        description=column.description or "",
    )
