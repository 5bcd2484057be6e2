"""BigQuery's description of columns as the contract knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedup_clone.contract.table import Column, ColumnMode

if TYPE_CHECKING:
    from google.cloud.bigquery import SchemaField

# The REST API answers with the names of legacy SQL.
_STANDARD_TYPES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}


def column_of(field: SchemaField) -> Column:
    """One column, nested ones included."""
    return Column(
        name=field.name,
        type=_STANDARD_TYPES.get(field.field_type, field.field_type),
        mode=ColumnMode(field.mode or "NULLABLE"),
        fields=tuple(column_of(inner) for inner in field.fields),
    )
