"""Tables with a column of every type that a feed may have, and rows with the least and greatest values of each type."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow.parquet as pq

from dedup_clone.contract.table import Column, ColumnMode
from testkit.generated_tables import VALUES
from testkit.table_contracts import NESTED
from tests.shared.damaged_parquet import enum_file

MOMENT = datetime(2026, 1, 31, 1, 2, 3, 456789, tzinfo=UTC)  # with microseconds, so that their loss would be found
ENUM = "kind"  # this column is an ENUM in files
_SCALARS = tuple(Column(kind.lower(), kind) for kind in VALUES)
# Engines in SQL refuse FLOAT64 in arrays.
_IN_ARRAYS = tuple(column for column in _SCALARS if column.type != "FLOAT64")
TABLE = replace(
    NESTED,
    columns=(
        *NESTED.columns,
        Column("at", "TIMESTAMP"),
        Column("local_at", "DATETIME"),
        Column("price", "NUMERIC"),
        Column("made_on", "DATE"),
        Column(ENUM, "STRING"),
        Column("numbers", "INT64", ColumnMode.REPEATED),
        Column("every", "STRUCT", fields=_SCALARS),
        Column("series", "STRUCT", ColumnMode.REPEATED, fields=_IN_ARRAYS),
    ),
)
# Engine bigquery writes a table of NULLABLE columns by a query with WRITE_TRUNCATE_DATA, and one with REQUIRED columns
# by DML.
NULLABLE_TABLE = replace(
    TABLE,
    columns=tuple(replace(c, mode=ColumnMode.NULLABLE) if c.mode is ColumnMode.REQUIRED else c for c in TABLE.columns),
)
# With this number of rows on a day, the day has all VALUES of each type, and NULL.
ROWS_FOR_EVERY_VALUE = 1 + max(map(len, VALUES.values()))


def rows(days: tuple[date, ...], snapshot_id: int, *, keys: int = 4) -> list[dict[str, Any]]:
    """The snapshot's rows, `keys` a day. The first row of a day is NULL in every nullable column."""
    return [_row(day, number, snapshot_id) for day in days for number in range(keys)]


def _row(day: date, number: int, snapshot_id: int) -> dict[str, Any]:
    key = {"name": f"n\u00e4me {number}", "day": day, "code": -number, "version": snapshot_id}
    if number == 0:
        arrays = {column.name for column in TABLE.columns if column.mode is ColumnMode.REPEATED}
        return {column.name: [] if column.name in arrays else None for column in TABLE.columns} | key
    return {
        "amount": _value("FLOAT64", number),
        "note": f"snapshot {snapshot_id}",
        "seen": number % 2 == 0,
        "raw": bytes([0, 255, number]),
        "tags": ["a", "", f"{snapshot_id}"],
        "info": {"weight": 1.25, "label": None},
        "parts": [{"number": number, "price": _value("NUMERIC", number)}, {"number": None, "price": None}],
        "at": MOMENT,
        "local_at": MOMENT.replace(tzinfo=None),
        "price": _value("NUMERIC", number),
        "made_on": _value("DATE", number),
        ENUM: ("red", "gr\u00fcn")[number % 2],
        "numbers": VALUES["INT64"],
        "every": {column.name: _value(column.type, number) for column in _SCALARS},
        "series": [{column.name: _value(column.type, at) for column in _IN_ARRAYS} for at in (number, number + 1)],
        **key,
    }


def _value(kind: str, number: int) -> Any:
    return VALUES[kind][number % len(VALUES[kind])]


def with_enums(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same Parquet files, with the column `kind` stored as a Parquet ENUM."""
    return {name: enum_file(pq.read_table(io.BytesIO(content)), ENUM) for name, content in files.items()}


def without_floats(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns and fields that are not FLOAT64."""
    return tuple(replace(c, fields=without_floats(c.fields)) for c in columns if c.type != "FLOAT64")


def row_without_floats(row: dict[str, Any], columns: tuple[Column, ...] = TABLE.columns) -> dict[str, Any]:
    """The row as it is in the table of `without_floats`."""
    return {c.name: _without_floats(row[c.name], c) for c in columns if c.type != "FLOAT64"}


def _without_floats(value: Any, column: Column) -> Any:
    if isinstance(value, list):
        return [_without_floats(item, column) for item in value]
    return row_without_floats(value, column.fields) if isinstance(value, dict) else value
