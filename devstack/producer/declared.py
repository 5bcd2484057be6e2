"""Snapshots of any feed, from what its file declares alone. Pure and seeded: the same arguments give the same rows.

A row is known by two numbers: which row of its date it is (its key comes from that) and how often its values have
changed so far. The next snapshot is derived from the rows of the one before.
"""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import TableContract
from devstack.producer.column_values import field, key_values, mixed, values
from devstack.producer.generate import CHANGED_SHARE, Differences

DATES = 13
ROWS_PER_DATE = 1_000
# Rows of later snapshots are numbered above those of the first, a block for each snapshot: never seen before.
NUMBERS_PER_SNAPSHOT = 1_000_000
MAXIMUM_BLOCKS = 1 << 40


def schema(table: TableContract) -> pa.Schema:
    """The Parquet schema of the feed's files."""
    return pa.schema([field(column) for column in table.columns])


def first(table: TableContract, day: date, snapshot_id: int, seed: int, rows_per_date: int = ROWS_PER_DATE) -> pa.Table:
    """A first snapshot of DATES dates, the last of them `day`."""
    dates = [day - timedelta(days=back) for back in reversed(range(DATES))]
    return pa.concat_tables([_rows(table, one, np.arange(rows_per_date), snapshot_id, seed) for one in dates])


def following(
    table: TableContract, previous: pa.Table, day: date, snapshot_id: int, seed: int, rows_per_date: int = ROWS_PER_DATE
) -> tuple[pa.Table, Differences]:
    """The snapshot after `previous`: about 0.1 % of its rows changed, new or missing, and `day` when it is not there.

    Of the differing rows two in four have other values, one has gone and one is new. Dates past retention go.
    """
    rng = np.random.default_rng([seed, snapshot_id])
    date_column = table.partition_column
    oldest = day - timedelta(days=table.retention_days - 1)
    kept = previous.filter(pc.greater_equal(previous[date_column], pa.scalar(oldest)))
    differing = max(4, round(kept.num_rows * CHANGED_SHARE))
    missing = new = differing // 4
    changed = differing - missing - new if table.value_columns else 0
    picked = rng.choice(kept.num_rows, size=changed + missing, replace=False)

    stays = np.ones(kept.num_rows, dtype=bool)
    stays[picked] = False
    corrected = _with_values(table, kept.take(pa.array(picked[:changed])), rng.integers(0, 2**62, changed))
    parts = [kept.filter(pa.array(stays)), corrected]
    numbers = snapshot_id % MAXIMUM_BLOCKS * NUMBERS_PER_SNAPSHOT + np.arange(new)
    days = pc.unique(kept[date_column]).to_pylist()
    added_to = rng.integers(0, len(days), new)
    parts += [_rows(table, days[n], numbers[added_to == n], snapshot_id, seed) for n in np.unique(added_to)]
    if day not in days:
        parts.append(_rows(table, day, np.arange(rows_per_date), snapshot_id, seed))
        new += rows_per_date
    ids = pa.array(np.full(sum(part.num_rows for part in parts), snapshot_id, dtype=np.int64))
    whole = pa.concat_tables(parts)
    position = whole.schema.get_field_index(table.snapshot_id_column)
    return whole.set_column(position, schema(table).field(position), ids), Differences(changed, new, missing)


def _rows(table: TableContract, day: date, numbers: np.ndarray, snapshot_id: int, seed: int) -> pa.Table:
    """Keys come from the row's number, the last one first: it alone tells all rows of a date apart."""
    others = [name for name in table.keys if name != table.partition_column]
    columns: dict[str, pa.Array] = {
        table.partition_column: pa.array([day] * len(numbers), pa.date32()),
        table.snapshot_id_column: pa.array(np.full(len(numbers), snapshot_id, dtype=np.int64)),
    }
    distinguishing = next((n for n in others if table.column(n).type in ("STRING", "INT64", "BYTES", "NUMERIC")), None)
    if distinguishing is None:
        numbers = numbers[:1]  # no key type of the feed is sure to tell more rows of a date apart
        columns = {name: column[:1] for name, column in columns.items()}
    for place, name in enumerate(others):
        own = numbers if name == distinguishing else mixed(numbers, place) % np.uint64(50)
        columns[name] = key_values(table.column(name), own)
    started = mixed(numbers + day.toordinal() * NUMBERS_PER_SNAPSHOT, seed)
    for place, column in enumerate(table.value_columns):
        columns[column.name] = values(column, mixed(started, place))
    return pa.table([columns[c.name] for c in table.columns], schema=schema(table))


def _with_values(table: TableContract, rows: pa.Table, numbers: np.ndarray) -> pa.Table:
    """The same keys with other values in every value column."""
    for place, column in enumerate(table.value_columns):
        position = rows.schema.get_field_index(column.name)
        rows = rows.set_column(position, rows.schema.field(position), values(column, mixed(numbers, place)))
    return rows
