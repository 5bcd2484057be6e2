"""Generates realistic snapshots of the feed product_attributes. The same arguments always give the same rows."""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from devstack.producer.demo_feeds import SCHEMA, SNAPSHOT_ID, VALUE

DATES = 13  # of the first snapshot
ROWS_PER_DATE = 8_000
RETENTION_DAYS = 730
DIFFERING_SHARE = 0.001  # of a snapshot's rows, compared with the snapshot before

# The number of different products, stores, attributes and values.
PRODUCTS = 2_000_000
STORES = 4_000
ATTRIBUTES = 12
VALUES = 1_000
# Each snapshot takes the product ids of its new rows from a range of its own, so that their keys are new.
NEW_PRODUCTS_FROM = 10_000_000
NEW_PRODUCTS_PER_SNAPSHOT = 1_000_000
MAX_RANGES = 1 << 40  # greater snapshot ids use the ranges again, so that product ids stay within 64 bits

Rng = np.random.Generator


@dataclass(frozen=True)
class SnapshotChanges:
    """How many rows of a snapshot have other values than in the snapshot before, are new, or are missing.

    Rows of expired dates do not count.
    """

    changed: int
    new: int
    missing: int


def first(day: date, snapshot_id: int, seed: int, rows_per_date: int = ROWS_PER_DATE) -> pa.Table:
    """The first snapshot. It has DATES dates, the last of which is `day`."""
    rng = np.random.default_rng([seed, snapshot_id])
    dates = [day - timedelta(days=back) for back in reversed(range(DATES))]
    return pa.concat_tables([_rows_of_date(row_day, snapshot_id, rng, rows_per_date) for row_day in dates])


def following(
    previous: pa.Table, day: date, snapshot_id: int, seed: int, rows_per_date: int = ROWS_PER_DATE
) -> tuple[pa.Table, SnapshotChanges]:
    """The snapshot after `previous`, without rows of expired dates. About 0.1 % of the other rows differ.

    Half of the differing rows have another value, a quarter are missing, and a quarter are new. If `previous` lacks the
    date `day`, `rows_per_date` rows of that date are added, which count as new too.
    """
    rng = np.random.default_rng([seed, snapshot_id])
    oldest = day - timedelta(days=RETENTION_DAYS - 1)
    retained = previous.filter(pc.greater_equal(previous["date"], pa.scalar(oldest)))
    differing = min(retained.num_rows, max(4, round(retained.num_rows * DIFFERING_SHARE)))
    missing = new = differing // 4
    changed = differing - missing - new

    selected = rng.choice(retained.num_rows, size=changed + missing, replace=False)
    values = retained[VALUE].to_numpy().copy()
    # Shifting by less than the number of values always gives another value.
    values[selected[:changed]] = (values[selected[:changed]] + rng.integers(1, VALUES, changed)) % VALUES
    stays_mask = np.ones(retained.num_rows, dtype=bool)
    stays_mask[selected[changed:]] = False

    table = retained.set_column(retained.schema.get_field_index(VALUE), VALUE, pa.array(values)).filter(
        pa.array(stays_mask)
    )
    parts = [table, _new_rows(retained, snapshot_id, rng, new)]
    if not pc.any(pc.equal(retained["date"], pa.scalar(day))).as_py():
        added = _rows_of_date(day, snapshot_id, rng, rows_per_date)
        parts.append(added)
        new += added.num_rows
    return _with_snapshot_id(pa.concat_tables(parts), snapshot_id), SnapshotChanges(changed, new, missing)


def _with_snapshot_id(table: pa.Table, snapshot_id: int) -> pa.Table:
    ids = pa.array(np.full(table.num_rows, snapshot_id, dtype=np.int64))
    return table.set_column(table.schema.get_field_index(SNAPSHOT_ID), SNAPSHOT_ID, ids).cast(SCHEMA)


def _rows_of_date(day: date, snapshot_id: int, rng: Rng, rows: int) -> pa.Table:
    """Rows of one date with distinct keys: each key is a random number, split into product, store and attribute."""
    numbers = np.unique(rng.integers(0, PRODUCTS * STORES * ATTRIBUTES, size=rows + rows // 100 + 10))
    numbers = rng.permutation(numbers)[:rows]
    return _table(
        np.full(rows, np.datetime64(day, "D")),
        1 + numbers // (STORES * ATTRIBUTES),
        1 + numbers // ATTRIBUTES % STORES,
        1 + numbers % ATTRIBUTES,
        rng.integers(0, VALUES, rows),
        snapshot_id,
    )


def _new_rows(previous: pa.Table, snapshot_id: int, rng: Rng, rows: int) -> pa.Table:
    """Rows on dates of `previous`. No earlier snapshot has their keys, if all snapshot ids are below MAX_RANGES."""
    dates = np.unique(previous["date"].to_numpy())
    base = NEW_PRODUCTS_FROM + snapshot_id % MAX_RANGES * NEW_PRODUCTS_PER_SNAPSHOT
    return _table(
        rng.choice(dates, rows),
        base + np.arange(rows),
        rng.integers(1, STORES + 1, rows),
        rng.integers(1, ATTRIBUTES + 1, rows),
        rng.integers(0, VALUES, rows),
        snapshot_id,
    )


def _table(
    dates: np.ndarray, products: np.ndarray, stores: np.ndarray, attributes: np.ndarray, values: np.ndarray, id_: int
) -> pa.Table:
    columns = (dates.astype("datetime64[D]"), products, stores, attributes, values, np.full(len(dates), id_))
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)
