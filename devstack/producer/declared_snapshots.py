"""Generates snapshots of any feed from what its feed file declares. The same arguments always give the same rows.

Within a date, rows are numbered. A row's key follows from this number, its other values are random. Each snapshot but
the first is made by changing the one before.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.arrow_cast import dates_of
from dedup_spark.column_types import arrow_schema, arrow_type

DATES = 13  # of the first snapshot
DIFFERING_SHARE = 0.001  # of a snapshot's rows, compared with the snapshot before
NULL_SHARE = 0.02  # of the values of a NULLABLE column
MAX_ARRAY_LENGTH = 3
# Each snapshot takes the numbers of its new rows from a range of its own, so that their keys are new.
NUMBERS_PER_SNAPSHOT = 1_000_000
MAX_RANGES = 1 << 40  # greater snapshot ids use the ranges again, so that numbers stay within 64 bits

_FIRST_DAY = np.datetime64("2020-01-01")
_DAYS = 2_000
_MICROS = _DAYS * 24 * 60 * 60 * 1_000_000


def schema(table: TableContract) -> pa.Schema:
    """The Parquet schema of the feed's files."""
    return arrow_schema(table.columns)


def first(table: TableContract, day: date, snapshot_id: int, seed: int, rows_per_date: int) -> pa.Table:
    """The first snapshot. It has DATES dates, the last of which is `day`."""
    rng = np.random.default_rng([seed, snapshot_id])
    days = [day - timedelta(days=back) for back in reversed(range(DATES))]
    return pa.concat_tables([_rows(table, row_day, np.arange(rows_per_date), snapshot_id, rng) for row_day in days])


def following(
    table: TableContract, previous: pa.Table, day: date, snapshot_id: int, seed: int, rows_per_date: int
) -> pa.Table:
    """The snapshot after `previous`, without rows of expired dates. About 0.1 % of the other rows differ.

    Half of the differing rows have other values, a quarter are missing, and a quarter are new. In a table without value
    columns no row has other values. If no key column can store a row's number, none is new, and three quarters have
    other values. If `previous` lacks the date `day`, `rows_per_date` rows of that date are added (see `_rows`).
    """
    rng = np.random.default_rng([seed, snapshot_id])
    dates, oldest = dates_of(previous[table.partition_column]), day - timedelta(days=table.retention_days - 1)
    retained = previous.filter(pc.greater_equal(dates, pa.scalar(oldest)))
    differing = min(retained.num_rows, max(4, round(retained.num_rows * DIFFERING_SHARE)))
    missing = differing // 4
    new = missing if _numbered_key(table) else 0
    changed = differing - missing - new if table.value_columns else 0
    selected = rng.choice(retained.num_rows, size=changed + missing, replace=False)

    stays_mask = np.ones(retained.num_rows, dtype=bool)
    stays_mask[selected] = False
    corrected = retained.take(pa.array(selected[:changed]))
    for column in table.value_columns:
        corrected = _with_column(corrected, column, _values(column, rng, changed))  # by chance the same value
    parts = [retained.filter(pa.array(stays_mask)), corrected]
    numbers = snapshot_id % MAX_RANGES * NUMBERS_PER_SNAPSHOT + np.arange(new)
    days = pc.unique(dates_of(retained[table.partition_column])).to_pylist()
    added_to = rng.integers(0, len(days), new) if new else np.arange(0)
    parts += [_rows(table, days[n], numbers[added_to == n], snapshot_id, rng) for n in np.unique(added_to)]
    if day not in days:
        parts.append(_rows(table, day, np.arange(rows_per_date), snapshot_id, rng))
    snapshot = pa.concat_tables(parts)
    ids = pa.array(np.full(snapshot.num_rows, snapshot_id, dtype=np.int64))
    return _with_column(snapshot, table.column(table.snapshot_id_column), ids)


def _with_column(rows: pa.Table, column: Column, content: pa.Array) -> pa.Table:
    position = rows.schema.get_field_index(column.name)
    return rows.set_column(position, rows.schema.field(position), content)


def _rows(table: TableContract, day: date, numbers: np.ndarray, snapshot_id: int, rng: np.random.Generator) -> pa.Table:
    """A row of the date for each of `numbers`. The numbered key (see `_numbered_key`) has the row's number.

    Without a numbered key, keys would repeat, so the date gets only one row.
    """
    numbered_key = _numbered_key(table)
    if numbered_key is None:
        numbers = numbers[:1]
    columns = {
        table.partition_column: _of_day(table, day, rng, len(numbers)),
        table.snapshot_id_column: pa.array(np.full(len(numbers), snapshot_id, dtype=np.int64)),
    }
    for name in table.keys:
        if name != table.partition_column:
            key_numbers = numbers if name == numbered_key else rng.integers(0, 50, len(numbers))
            columns[name] = _key_values(table.column(name), key_numbers, rng)
    for column in table.value_columns:
        columns[column.name] = _values(column, rng, len(numbers))
    return pa.table([columns[c.name] for c in table.columns], schema=schema(table))


def _of_day(table: TableContract, day: date, rng: np.random.Generator, count: int) -> pa.Array:
    """Values of the partition column on this date: the date, or random times."""
    if table.date_type == "DATE":
        return pa.array([day] * count, pa.date32())
    moments = np.datetime64(day, "us") + rng.integers(0, _MICROS // _DAYS, count)
    return pa.array(moments).cast(arrow_type(table.column(table.partition_column)))


def _numbered_key(table: TableContract) -> str | None:
    """The first key column, other than the partition column, that can store a row's number; None if there is none."""
    types = ("STRING", "INT64", "BYTES", "NUMERIC")
    names = (name for name in table.keys if name != table.partition_column)
    return next((name for name in names if table.column(name).type in types), None)


def _key_values(column: Column, numbers: np.ndarray, rng: np.random.Generator) -> pa.Array:
    """A value of a key column for each number, never NULL; of a type that cannot store numbers, a random value."""
    if column.type in ("STRING", "BYTES"):
        return pa.array([f"{column.name}-{number:08x}" for number in numbers.tolist()]).cast(arrow_type(column))
    if column.type in ("INT64", "NUMERIC"):
        return pa.array(numbers.astype(np.int64)).cast(arrow_type(column))
    return _values(replace(column, mode=ColumnMode.REQUIRED), rng, len(numbers))


def _values(column: Column, rng: np.random.Generator, count: int) -> pa.Array:
    """Random values of the column. An array is never NULL."""
    kind = arrow_type(column)
    if column.mode is ColumnMode.REPEATED:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, MAX_ARRAY_LENGTH + 1, count))])
        elements = _values(replace(column, mode=ColumnMode.REQUIRED), rng, int(offsets[-1]))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=kind)
    is_null = rng.random(count) < NULL_SHARE if column.mode is ColumnMode.NULLABLE else np.zeros(count, dtype=bool)
    if column.type == "STRUCT":
        fields = [_values(field, rng, count) for field in column.fields]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(is_null))
    return pa.array(_DRAW[column.type](rng, count), mask=is_null).cast(kind)


def _micros(rng: np.random.Generator, count: int) -> Any:
    return _FIRST_DAY.astype("datetime64[us]") + rng.integers(0, _MICROS, count)


_DRAW: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "BOOL": lambda rng, count: rng.random(count) < 0.5,
    "BYTES": lambda rng, count: np.array([rng.bytes(8) for _ in range(count)], dtype=object),
    "DATE": lambda rng, count: _FIRST_DAY + rng.integers(0, _DAYS, count),
    "DATETIME": _micros,
    "FLOAT64": lambda rng, count: rng.integers(0, 100_000, count) / 8.0,
    "INT64": lambda rng, count: rng.integers(0, 1_000, count),
    "NUMERIC": lambda rng, count: rng.integers(0, 1_000_000, count),
    "STRING": lambda rng, count: np.array([f"word {n:04d}" for n in rng.integers(0, 10_000, count)], dtype=object),
    "TIMESTAMP": _micros,
}
