"""The rows of the worked example's table, and the files of a snapshot of them, as tests land them in a local stack."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
COLUMNS = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")
SCHEMA = pa.schema([("date", pa.date32()), *[(name, pa.int64()) for name in COLUMNS[1:]]])


def row(day: date, product: int, value: int, snapshot_id: int) -> Row:
    """A row of the worked example's table."""
    return dict(zip(COLUMNS, (day, product, 2072, 1, value, snapshot_id), strict=True))


def as_tuples(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """These rows in the form of Stack.rows."""
    return sorted(tuple(r[name] for name in COLUMNS) for r in rows)


def files_of_snapshot(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> dict[str, bytes]:
    """The files of a snapshot by name. Each date has two, in row groups of at most 100.

    The layout differs from that of devstack.producer, because files of other producers differ too.
    """
    files = {}
    for day in sorted({r["date"] for r in rows}):
        rows_of_day = [r for r in rows if r["date"] == day]
        for number in range(2):
            half = pa.Table.from_pylist(rows_of_day[number::2], schema=schema)
            sink = io.BytesIO()
            pq.write_table(half, sink, compression="snappy", row_group_size=100)
            files[f"date={day}/{number}.parquet"] = sink.getvalue()
    return files
