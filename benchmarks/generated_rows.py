"""Generates rows of the parent's snapshots, of the arriving snapshot and of the table that must result.

The rows of a date are generated in blocks of at most BLOCK_ROWS keys, so that a date of any size needs the same
memory. No two blocks have a product in common. The same shape, date and block always give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.dataset_shape import DatasetShape, Variant

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLOCK_ROWS = 4_000_000
STORES, ATTRIBUTES = 500, 10
_FILLED_SHARE = 0.8  # share of the ATTRIBUTES that a product has in a store, on average
_ROWS_PER_PRODUCT, _FEWEST_PRODUCTS = 50, 200
_FIRST_PRODUCT, _LAST_PRODUCT = 1_000_000, 100_000_000
_CHANGED, _NEW, _MISSING = 0.4, 0.3, 0.3  # shares of the rows that differ between parent and arriving snapshot
_RETURNING_SHARE = 0.1  # share of the new keys that the oldest snapshot also had
_DUPLICATED_SHARE = 0.001
# Ids of snapshots: the oldest, an arriving one of Variant.LATE, the newest of the parent, any other arriving one.

OLDEST_ID, LATE_ID, PARENT_ID, NEXT_ID = 1001, 1004, 1006, 1007


@dataclass(frozen=True)
class Keys:
    """The key columns of rows. The product is a number here, also if the files will store it as text."""

    product: Integers
    store: Integers
    attribute: Integers

    def take(self, chosen: Flags | Integers) -> Keys:
        return Keys(self.product[chosen], self.store[chosen], self.attribute[chosen])


@dataclass(frozen=True)
class GeneratedRows:
    """Rows of a snapshot or of the resulting table. `ids`: the snapshot id of each row."""

    keys: Keys
    values: Integers
    ids: Integers

    def __len__(self) -> int:
        return len(self.values)

    def take(self, chosen: Flags | Integers) -> GeneratedRows:
        return GeneratedRows(self.keys.take(chosen), self.values[chosen], self.ids[chosen])


@dataclass(frozen=True)
class Block:
    """Rows of the three snapshots of a data set, and of the table that their publishes must give.

    `oldest`: the oldest snapshot, which has only keys that `parent` lacks. `parent`: the parent's newest snapshot.
    """

    oldest: GeneratedRows
    parent: GeneratedRows
    arriving: GeneratedRows
    expected: GeneratedRows


def snapshot_id(shape: DatasetShape) -> int:
    """The id of the arriving snapshot."""
    return LATE_ID if shape.variant is Variant.LATE else NEXT_ID


def block_count(shape: DatasetShape, date_number: int) -> int:
    return -(-shape.rows_by_date()[date_number] // BLOCK_ROWS)


def make_block(shape: DatasetShape, date_number: int, block_number: int) -> Block:
    rows, count = shape.rows_by_date()[date_number], block_count(shape, date_number)
    rng = np.random.default_rng([shape.seed, date_number, block_number])
    keys = _keys(rng, block_number, count, rows // count)
    return _block(shape, shape.differing_share_by_date()[date_number], rng, keys)


def _keys(rng: np.random.Generator, number: int, count: int, rows: int) -> Keys:
    """About `rows` unique keys in ascending order, of block `number` of `count`. Some products are in many stores."""
    products = max(_FEWEST_PRODUCTS, rows // _ROWS_PER_PRODUCT)
    wanted = max(1, round(rows / (ATTRIBUTES * _FILLED_SHARE)))
    drawn = int(wanted * 1.4) + 16
    pairs = (products * rng.random(drawn) ** 1.3).astype(np.int64) * STORES + rng.integers(0, STORES, drawn)
    pairs = np.unique(pairs)
    if len(pairs) > wanted:
        pairs = np.sort(rng.choice(pairs, wanted, replace=False))
    filled = np.flatnonzero(rng.random(len(pairs) * ATTRIBUTES) < _FILLED_SHARE)
    pair, attribute = pairs[filled // ATTRIBUTES], filled % ATTRIBUTES
    step = (_LAST_PRODUCT - _FIRST_PRODUCT) // (products * count)
    return Keys(
        product=_FIRST_PRODUCT + (number * products + pair // STORES) * step + (pair // STORES * 7919) % step,
        store=1_000 + (pair % STORES) * 197,
        attribute=1 + attribute * 99,
    )


def _values(rng: np.random.Generator, attribute: Integers) -> Integers:
    """Log-normal values, whose mean and spread grow with the number of the attribute."""
    number = attribute // 99
    spread = 0.3 + 0.09 * number
    return np.exp(1 + 0.8 * number + spread * rng.standard_normal(len(number))).astype(np.int64)


def _block(shape: DatasetShape, differing: float, rng: np.random.Generator, keys: Keys) -> Block:
    count = len(keys.product)
    values = _values(rng, keys.attribute)
    draw = rng.random(count)
    is_survivor = draw >= 1 - shape.survivor_share
    changed, new, missing = _between(draw, differing * (1 - shape.survivor_share), (_CHANGED, _NEW, _MISSING))
    in_arriving = ~(is_survivor | missing)
    in_parent = ~(is_survivor | new)
    in_oldest = is_survivor | (new & (rng.random(count) < _RETURNING_SHARE))
    arriving_values = values + np.where(changed, rng.integers(1, 50, count), 0)
    arriving, best = _with_duplicates(shape, rng, keys, arriving_values, in_arriving)
    wins = in_arriving & (~in_parent | (snapshot_id(shape) > PARENT_ID))
    ids = np.where(wins, snapshot_id(shape), np.where(in_parent, PARENT_ID, OLDEST_ID))
    parent_shuffled = shape.variant not in (Variant.SORTED, Variant.PARENT_SORTED)
    arriving_shuffled = shape.variant is not Variant.SORTED
    return Block(
        oldest=_chosen_rows(keys, values, in_oldest, OLDEST_ID),
        parent=_ordered(rng, _chosen_rows(keys, values, in_parent, PARENT_ID), shuffled=parent_shuffled),
        arriving=_ordered(rng, arriving, shuffled=arriving_shuffled),
        expected=GeneratedRows(keys, np.where(wins, best, values), ids),
    )


def _between(draw: NDArray[np.float64], differing: float, parts: tuple[float, ...]) -> list[Flags]:
    """For each of `parts` a mask that selects, at random, that part of the differing rows. The masks do not overlap.

    `draw`: a random number below 1 for each row; the rows whose number is below `differing` are the differing ones.
    """
    bounds = np.cumsum([0.0, *(part * differing for part in parts)])
    return [(draw >= low) & (draw < high) for low, high in pairwise(bounds)]


def _chosen_rows(keys: Keys, values: Integers, chosen: Flags, row_id: int) -> GeneratedRows:
    return GeneratedRows(keys.take(chosen), values[chosen], np.full(int(chosen.sum()), row_id, dtype=np.int64))


def _with_duplicates(
    shape: DatasetShape, rng: np.random.Generator, keys: Keys, values: Integers, present: Flags
) -> tuple[GeneratedRows, Integers]:
    """The arriving rows, and for every key the greatest value of its rows, which must be published."""
    rows = _chosen_rows(keys, values, present, snapshot_id(shape))
    if shape.variant is not Variant.DUPLICATES:
        return rows, values
    repeated = np.flatnonzero(present & (rng.random(len(values)) < _DUPLICATED_SHARE))
    other = values[repeated] + np.where(np.arange(len(repeated)) % 2, rng.integers(-5, 60, len(repeated)), 0)
    best = values.copy()
    np.maximum.at(best, repeated, other)
    more = GeneratedRows(keys.take(repeated), other, np.full(len(repeated), snapshot_id(shape), dtype=np.int64))
    return _concatenated(rows, more), best


def _concatenated(one: GeneratedRows, other: GeneratedRows) -> GeneratedRows:
    def both(a: Integers, b: Integers) -> Integers:
        return np.concatenate([a, b])

    keys = Keys(
        both(one.keys.product, other.keys.product),
        both(one.keys.store, other.keys.store),
        both(one.keys.attribute, other.keys.attribute),
    )
    return GeneratedRows(keys, both(one.values, other.values), both(one.ids, other.ids))


def _ordered(rng: np.random.Generator, rows: GeneratedRows, *, shuffled: bool) -> GeneratedRows:
    return rows.take(rng.permutation(len(rows))) if shuffled else rows
