"""Parses newline-delimited JSON into rows of a table, with BigQuery's conversions and error messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import SCALARS
from bigquery_standin.storage.arrow_schema import UnstorableRow, conform, rows_to_table


def parse_rows(uri: str, content: bytes, columns: Sequence[TableField]) -> pa.Table:
    """The rows of a file. Raises Invalid for a row that does not fit the columns."""
    rows, numbers = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line, parse_float=Decimal)
            if not isinstance(document, dict):
                raise ValueError(f"expected a JSON object, found [{type(document).__name__}]")
            rows.append(parse_record(document, columns))
        except (ValueError, ArithmeticError) as error:
            raise _parsing_error(uri, number, error) from error
        numbers.append(number)
    try:
        table = rows_to_table(rows, columns)
    except UnstorableRow as error:
        raise _parsing_error(uri, numbers[error.position], error) from error
    return conform(table, columns)


def _parsing_error(uri: str, number: int, error: Exception) -> Invalid:
    """The error of a row of the file. `number`: the row's line, from 1."""
    return Invalid(
        f"Error while reading data, error message: JSON parsing error in row [{number}]: {error}. File: {uri}"
    )


def parse_record(document: Mapping[str, Any], columns: Sequence[TableField], prefix: str = "") -> dict[str, Any]:
    """The row, or the nested record, of a JSON object. Raises ValueError for a value that does not fit its column.

    `prefix`: the path of a nested record in its row, with a final dot.
    """
    values = {name.lower(): value for name, value in document.items()}
    column_names = {column.name.lower() for column in columns}
    unknown = [name for name in document if name.lower() not in column_names]
    if unknown:
        raise ValueError(f"No such field: {prefix}{unknown[0]}")
    return {column.name: _value(values.get(column.name.lower()), column, prefix) for column in columns}


def _value(value: Any, column: TableField, prefix: str) -> Any:
    name = prefix + column.name
    if column.mode == "REPEATED":
        if value is None:
            return []
        if not isinstance(value, list):
            raise ValueError(f"Field {name} is an array, found [{value!r}]")
        if None in value:
            raise ValueError(f"Only optional fields can be set to NULL. Field: {name}; Value: NULL")
        return [_single_value(element, column, name) for element in value]
    return None if value is None else _single_value(value, column, name)


def _single_value(value: Any, column: TableField, name: str) -> Any:
    if column.type == "STRUCT":
        if not isinstance(value, dict):
            raise ValueError(f"Field {name} is a record, found [{value!r}]")
        return parse_record(value, column.fields, f"{name}.")
    try:
        return SCALARS[column.type].parse(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"Could not convert value [{value!r}] to {column.type}. Field: {name}") from error
