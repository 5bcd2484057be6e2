"""Defines the Arrow types in which segments (Parquet files) store rows, and converts Arrow tables to these types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import SCALARS


def arrow_type(column: TableField) -> pa.DataType:
    if column.type == "STRUCT":
        kind: pa.DataType = pa.struct([pa.field(child.name, arrow_type(child)) for child in column.fields])
    else:
        kind = SCALARS[column.type].arrow
    return pa.list_(kind) if column.mode == "REPEATED" else kind


def arrow_schema(columns: Sequence[TableField]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in columns])


class UnstorableRow(ValueError):
    """A row has a value that its column's Arrow type cannot hold, such as a number that is too large.

    `position`: the row's, from 0.
    """

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def rows_to_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableField]) -> pa.Table:
    """The rows, which have Python values, in the Arrow types of the columns.

    Raises UnstorableRow for the first row that cannot be stored.
    """
    schema = arrow_schema(columns)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (ValueError, OverflowError):
        for position, row in enumerate(rows):
            try:
                pa.Table.from_pylist([row], schema=schema)
            except (ValueError, OverflowError) as error:
                raise UnstorableRow(position, str(error)) from error
        raise


def conform(rows: pa.Table, columns: Sequence[TableField]) -> pa.Table:
    """`rows` with exactly the declared columns, in their order and types. A missing column becomes NULL.

    Column names are case-insensitive, as in BigQuery. Raises Invalid for a NULL in a REQUIRED column and for a
    value that does not fit its type.
    """
    positions = {name.lower(): position for position, name in enumerate(rows.column_names)}
    arrays = []
    for column in columns:
        position = positions.get(column.name.lower())
        values = (
            pa.chunked_array([pa.nulls(rows.num_rows, arrow_type(column))])
            if position is None
            else rows.column(position)
        )
        if column.mode == "REQUIRED" and values.null_count:
            raise Invalid(
                f"Required field {column.name} cannot be null: found NULL in [{values.null_count}] rows; "
                "correct the rows or make the field NULLABLE."
            )
        try:
            arrays.append(_fitted(values.cast(arrow_type(column)), column))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Invalid(
                f"Column [{column.name}] of type [{values.type}] cannot be stored as [{column.sql_type()}]: {error}"
            ) from error
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _fitted(values: pa.ChunkedArray, column: TableField) -> pa.ChunkedArray:
    """The values as a column with type parameters stores them. Raises Invalid for one that does not fit."""
    if not column.has_parameters:
        return values
    try:
        return pa.chunked_array([pa.array(map(column.stored_value, values.to_pylist()), values.type)])
    except ValueError as error:
        raise Invalid(f"Field {column.name}: {error}") from error


def is_canonical(schema: pa.Schema, columns: Sequence[TableField]) -> bool:
    """Whether a file's rows need no conversion, so that the file itself can become a segment."""
    expected = arrow_schema(columns)
    has_parameters = any(column.has_parameters for column in columns)
    return (
        not has_parameters
        and schema.names == expected.names
        and all(actual.type.equals(canonical.type) for actual, canonical in zip(schema, expected, strict=True))
    )
