"""Generates the rows of one block of a date: those of the state, of the snapshot and of the right result.

A date consists of blocks of at most four million keys, with different products in each, so that a date of any size
needs the same memory. The same shape, date and block always give the same rows.
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
_FILLED_SHARE = 0.8  # share of the attributes that a product has in a store
_ROWS_PER_PRODUCT, _FEWEST_PRODUCTS = 50, 200
_FIRST_PRODUCT, _LAST_PRODUCT = 1_000_000, 100_000_000
_CHANGED, _NEW, _MISSING = 0.4, 0.3, 0.3  # shares of the differing rows
_RETURNING_SHARE = 0.1  # share of the new keys that an old snapshot had
_DUPLICATED_SHARE = 0.001

OLDEST_ID, LATE_ID, STATE_ID, NEXT_ID = 1001, 1004, 1006, 1007


@dataclass(frozen=True)
class Keys:
    """The key columns of rows, with the product as a number."""

    product: Integers
    store: Integers
    attribute: Integers

    def of(self, chosen: Flags | Integers) -> Keys:
        return Keys(self.product[chosen], self.store[chosen], self.attribute[chosen])


@dataclass(frozen=True)
class GeneratedRows:
    """Rows of a snapshot or of the result. `ids`: the snapshot id of each row."""

    keys: Keys
    values: Integers
    ids: Integers

    def __len__(self) -> int:
        return len(self.values)

    def of(self, chosen: Flags | Integers) -> GeneratedRows:
        return GeneratedRows(self.keys.of(chosen), self.values[chosen], self.ids[chosen])


@dataclass(frozen=True)
class Block:
    """`old`: rows that only an old snapshot had. `before`: the state's newest snapshot. `answer`: the right result."""

    old: GeneratedRows
    before: GeneratedRows
    arriving: GeneratedRows
    answer: GeneratedRows


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
    """About `rows` unique keys in ascending order. Some products are in many stores."""
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
    place = attribute // 99
    spread = 0.3 + 0.09 * place
    return np.exp(1 + 0.8 * place + spread * rng.standard_normal(len(place))).astype(np.int64)


def _block(shape: DatasetShape, differing: float, rng: np.random.Generator, keys: Keys) -> Block:
    count = len(keys.product)
    values = _values(rng, keys.attribute)
    draw = rng.random(count)
    is_survivor = draw >= 1 - shape.survivor_share
    changed, new, missing = _between(draw, differing * (1 - shape.survivor_share), (_CHANGED, _NEW, _MISSING))
    in_arriving = ~(is_survivor | missing)
    in_before = ~(is_survivor | new)
    in_old = is_survivor | (new & (rng.random(count) < _RETURNING_SHARE))
    arriving_values = values + np.where(changed, rng.integers(1, 50, count), 0)
    arriving, best = _with_duplicates(shape, rng, keys, arriving_values, in_arriving)
    wins = in_arriving & (~in_before | (snapshot_id(shape) > STATE_ID))
    ids = np.where(wins, snapshot_id(shape), np.where(in_before, STATE_ID, OLDEST_ID))
    before_order = shape.variant not in (Variant.SORTED, Variant.STATE_SORTED)
    arriving_order = shape.variant is not Variant.SORTED
    return Block(
        old=_chosen_rows(keys, values, in_old, OLDEST_ID),
        before=_ordered(rng, _chosen_rows(keys, values, in_before, STATE_ID), shuffled=before_order),
        arriving=_ordered(rng, arriving, shuffled=arriving_order),
        answer=GeneratedRows(keys, np.where(wins, best, values), ids),
    )


def _between(draw: NDArray[np.float64], differing: float, parts: tuple[float, ...]) -> list[Flags]:
    """For each part a mask of the rows whose random number `draw` is in the part's range, below `differing`."""
    bounds = np.cumsum([0.0, *(part * differing for part in parts)])
    return [(draw >= low) & (draw < high) for low, high in pairwise(bounds)]


def _chosen_rows(keys: Keys, values: Integers, chosen: Flags, row_id: int) -> GeneratedRows:
    return GeneratedRows(keys.of(chosen), values[chosen], np.full(int(chosen.sum()), row_id, dtype=np.int64))


def _with_duplicates(
    shape: DatasetShape, rng: np.random.Generator, keys: Keys, values: Integers, present: Flags
) -> tuple[GeneratedRows, Integers]:
    """The arriving rows, and for every key the greatest value among its rows, which must win."""
    rows = _chosen_rows(keys, values, present, snapshot_id(shape))
    if shape.variant is not Variant.DUPLICATES:
        return rows, values
    repeated = np.flatnonzero(present & (rng.random(len(values)) < _DUPLICATED_SHARE))
    other = values[repeated] + np.where(np.arange(len(repeated)) % 2, rng.integers(-5, 60, len(repeated)), 0)
    best = values.copy()
    np.maximum.at(best, repeated, other)
    more = GeneratedRows(keys.of(repeated), other, np.full(len(repeated), snapshot_id(shape), dtype=np.int64))
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
    return rows.of(rng.permutation(len(rows))) if shuffled else rows
