"""Makes the files of deliveries of one table with every kind of column: good ones, and ones with one thing changed."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import arrow_schema

TYPED = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("name", "STRING"),
        Column("opened", "DATE"),
        Column("code", "INT64"),
        Column("amount", "FLOAT64"),
        Column("price", "NUMERIC"),
        Column("seen_at", "TIMESTAMP"),
        Column("local_at", "DATETIME"),
        Column("flag", "BOOL", ColumnMode.REQUIRED),
        Column("raw", "BYTES"),
        Column("note", "STRING"),
        Column("tags", "STRING", ColumnMode.REPEATED),
        Column(
            "info",
            "STRUCT",
            fields=(
                Column("weight", "FLOAT64"),
                Column("label", "STRING", ColumnMode.REQUIRED),
                Column("since", "DATE"),
            ),
        ),
        Column("parts", "STRUCT", ColumnMode.REPEATED, (Column("number", "INT64"), Column("price", "NUMERIC"))),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "name", "opened", "code"),
    cluster_by=("name",),
    retention_days=730,
)
SCHEMA = arrow_schema(TYPED.columns)
DAY = date(2026, 3, 1)
FOLDER = f"day={DAY}"
FILE = f"{FOLDER}/part-0.parquet"

Files = dict[str, bytes]
MakeFiles = Callable[[int], Files]


def row(version: int, code: int, /, **changes: Any) -> dict[str, Any]:
    return {
        "day": DAY,
        "name": "north",
        "opened": date(2020, 5, 17),
        "code": code,
        "amount": 1.5,
        "price": Decimal("12.500000000"),
        "seen_at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        "local_at": datetime(2026, 3, 1, 13, 30),  # noqa: DTZ001  # a DATETIME has no zone
        "flag": True,
        "raw": b"\x00\xff",
        "note": "plain",
        "tags": ["a", "b"],
        "info": {"weight": 2.0, "label": "l", "since": date(2019, 1, 1)},
        "parts": [{"number": 1, "price": Decimal("0.100000000")}],
        "version": version,
        **changes,
    }


def table(version: int, /, rows: int = 3, schema: pa.Schema = SCHEMA, **changes: Any) -> pa.Table:
    """Some rows; `changes` are those of the last one."""
    made = [row(version, code) for code in range(rows)]
    made[-1].update(changes)
    return pa.Table.from_pylist(made, schema=schema)


def nullable() -> pa.Schema:
    """The schema with all modes as most writers leave them."""
    return pa.schema([field.with_nullable(True) for field in SCHEMA])


def parquet(content: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(content, stream, **options)
    return stream.getvalue()


def good(version: int) -> Files:
    return {FILE: parquet(table(version))}


def with_row(**changes: Any) -> MakeFiles:
    """A value in one of three rows."""
    return lambda version: {FILE: parquet(table(version, schema=nullable(), **changes))}


def with_column(name: str, values: pa.Array, new_name: str | None = None, **options: Any) -> MakeFiles:
    """A column of all three rows replaced (or added, when there is none of the name)."""

    def make(version: int) -> Files:
        content = table(version)
        position = content.schema.get_field_index(name)
        if position < 0:
            content = content.append_column(name, values)
        else:
            content = content.set_column(position, new_name or name, values)
        return {FILE: parquet(content, **options)}

    return make


def without_column(name: str) -> MakeFiles:
    return lambda version: {FILE: parquet(table(version).drop_columns([name]))}


def named(*names: str) -> MakeFiles:
    """Good content under other names."""
    return lambda version: {name: parquet(table(version)) for name in names}


def written(**options: Any) -> MakeFiles:
    return lambda version: {FILE: parquet(table(version), **options)}


def changed(change: Callable[[bytes], bytes], **options: Any) -> MakeFiles:
    """The bytes of a good file, changed."""
    return lambda version: {FILE: change(parquet(table(version), **options))}


def beside_a_good_file(make: MakeFiles) -> MakeFiles:
    """The wrong file is the delivery's second."""
    return lambda version: {f"{FOLDER}/a.parquet": parquet(table(version)), **make(version)}
