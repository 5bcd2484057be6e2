"""Enforces BigQuery's rule that an array in a query's result has no NULL element."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.sql.field_types import TableField


def refuse_null_elements(columns: Sequence[TableField], rows: pa.Table) -> None:
    """Raises InvalidQuery for a NULL element in an array of the rows, in nested arrays too."""
    for column, values in zip(columns, rows.columns, strict=True):
        for chunk in values.chunks:
            _check(column, chunk)


def _check(column: TableField, values: pa.Array) -> None:
    if column.mode == "REPEATED":
        values = values.flatten()
        if values.null_count:
            raise InvalidQuery(f"Array cannot have a null element; error in writing field {column.name}")
    for number, child in enumerate(column.fields):
        _check(child, values.field(number))
