"""Generates snapshots of any feed from what its feed file declares. The same arguments always give the same rows.

Within a date, rows are numbered. A row's key follows from this number, its values from random numbers. Each snapshot
but the first is made by changing the one before.
"""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import TableContract
from devstack.producer.column_values import field, key_values, pseudo_random, values

DATES = 13  # of the first snapshot
DIFFERING_SHARE = 0.001  # of a snapshot's rows, compared with the snapshot before
# Each snapshot takes the numbers of its new rows from a range of its own, so that their keys are new.
NUMBERS_PER_SNAPSHOT = 1_000_000
MAX_RANGES = 1 << 40  # greater snapshot ids use the ranges again, so that numbers stay within 64 bits


def schema(table: TableContract) -> pa.Schema:
    """The Parquet schema of the feed's files."""
    return pa.schema([field(column) for column in table.columns])


def first(table: TableContract, day: date, snapshot_id: int, seed: int, rows_per_date: int) -> pa.Table:
    """The first snapshot. It has DATES dates, the last of which is `day`."""
    dates = [day - timedelta(days=back) for back in reversed(range(DATES))]
    return pa.concat_tables([_rows(table, row_day, np.arange(rows_per_date), snapshot_id, seed) for row_day in dates])


def following(
    table: TableContract, previous: pa.Table, day: date, snapshot_id: int, seed: int, rows_per_date: int
) -> pa.Table:
    """The snapshot after `previous`, without rows of expired dates. About 0.1 % of the other rows differ.

    Half of the differing rows have other values, a quarter are missing, and a quarter are new. In a table without value
    columns no row has other values. If no key column can store a row's number, none is new, and three quarters have
    other values. If `previous` lacks the date `day`, `rows_per_date` rows of that date are added (see `_rows`).
    """
    rng = np.random.default_rng([seed, snapshot_id])
    date_column = table.partition_column
    oldest = day - timedelta(days=table.retention_days - 1)
    retained = previous.filter(pc.greater_equal(previous[date_column], pa.scalar(oldest)))
    differing = min(retained.num_rows, max(4, round(retained.num_rows * DIFFERING_SHARE)))
    missing = differing // 4
    new = missing if _numbered_key(table) else 0
    changed = differing - missing - new if table.value_columns else 0
    selected = rng.choice(retained.num_rows, size=changed + missing, replace=False)

    stays_mask = np.ones(retained.num_rows, dtype=bool)
    stays_mask[selected] = False
    corrected = _with_values(table, retained.take(pa.array(selected[:changed])), rng.integers(0, 2**62, changed))
    parts = [retained.filter(pa.array(stays_mask)), corrected]
    numbers = snapshot_id % MAX_RANGES * NUMBERS_PER_SNAPSHOT + np.arange(new)
    days = pc.unique(retained[date_column]).to_pylist()
    added_to = rng.integers(0, len(days), new) if new else np.arange(0)
    parts += [_rows(table, days[n], numbers[added_to == n], snapshot_id, seed) for n in np.unique(added_to)]
    if day not in days:
        parts.append(_rows(table, day, np.arange(rows_per_date), snapshot_id, seed))
    ids = pa.array(np.full(sum(part.num_rows for part in parts), snapshot_id, dtype=np.int64))
    snapshot = pa.concat_tables(parts)
    position = snapshot.schema.get_field_index(table.snapshot_id_column)
    return snapshot.set_column(position, schema(table).field(position), ids)


def _rows(table: TableContract, day: date, numbers: np.ndarray, snapshot_id: int, seed: int) -> pa.Table:
    """A row of the date for each of `numbers`. The numbered key (see `_numbered_key`) has the row's number.

    Without a numbered key, keys would repeat, so the date gets only one row.
    """
    other_keys = [name for name in table.keys if name != table.partition_column]
    columns: dict[str, pa.Array] = {
        table.partition_column: pa.array([day] * len(numbers), pa.date32()),
        table.snapshot_id_column: pa.array(np.full(len(numbers), snapshot_id, dtype=np.int64)),
    }
    numbered_key = _numbered_key(table)
    if numbered_key is None:
        numbers = numbers[:1]
        columns = {name: column[:1] for name, column in columns.items()}
    for position, name in enumerate(other_keys):
        key_numbers = numbers if name == numbered_key else pseudo_random(numbers, position) % np.uint64(50)
        columns[name] = key_values(table.column(name), key_numbers)
    value_numbers = pseudo_random(numbers + day.toordinal() * NUMBERS_PER_SNAPSHOT, seed)
    for index, column in enumerate(table.value_columns):
        columns[column.name] = values(column, pseudo_random(value_numbers, index))
    return pa.table([columns[c.name] for c in table.columns], schema=schema(table))


def _numbered_key(table: TableContract) -> str | None:
    """The first key column, other than the partition column, that can store a row's number; None if there is none."""
    types = ("STRING", "INT64", "BYTES", "NUMERIC")
    names = (name for name in table.keys if name != table.partition_column)
    return next((name for name in names if table.column(name).type in types), None)


def _with_values(table: TableContract, rows: pa.Table, numbers: np.ndarray) -> pa.Table:
    """The same rows, with new values in all value columns. By chance a new value can equal the old one."""
    for index, column in enumerate(table.value_columns):
        position = rows.schema.get_field_index(column.name)
        rows = rows.set_column(position, rows.schema.field(position), values(column, pseudo_random(numbers, index)))
    return rows
