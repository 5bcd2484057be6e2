"""Makes the rows of one block of one date: which keys there are, who has them, and what the answer must be.

A date is made of blocks of at most four million keys, each with products of its own, so that a date of any size is
made in the same memory. Everything follows from shape, date and block: the same rows come out every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.shape import Shape, Variant

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLOCK_ROWS = 4_000_000
STORES, ATTRIBUTES = 500, 10
_FILLED = 0.8  # of the attributes of a product in a store
_ROWS_A_PRODUCT, _FEWEST_PRODUCTS = 50, 200
_FIRST_PRODUCT, _LAST_PRODUCT = 1_000_000, 100_000_000
_CHANGED, _NEW, _MISSING = 0.4, 0.3, 0.3
_RETURNING = 0.1  # of the new keys are among the rows that the state keeps
_DUPLICATED = 0.001

OLDEST_ID, LATE_ID, STATE_ID, NEXT_ID = 1001, 1004, 1006, 1007


@dataclass(frozen=True)
class Keys:
    """Key columns of rows, product as a number."""

    product: Integers
    store: Integers
    attribute: Integers

    def of(self, chosen: Flags | Integers) -> Keys:
        return Keys(self.product[chosen], self.store[chosen], self.attribute[chosen])


@dataclass(frozen=True)
class Rows:
    """Rows of one snapshot (or of the answer, with an id a row)."""

    keys: Keys
    values: Integers
    ids: Integers

    def __len__(self) -> int:
        return len(self.values)

    def of(self, chosen: Flags | Integers) -> Rows:
        return Rows(self.keys.of(chosen), self.values[chosen], self.ids[chosen])


@dataclass(frozen=True)
class Block:
    """`old`: rows that only an older snapshot had. `before`: the state's newest snapshot. `arriving`: what comes."""

    old: Rows
    before: Rows
    arriving: Rows
    answer: Rows


def snapshot_id(shape: Shape) -> int:
    """Of the arriving snapshot."""
    return LATE_ID if shape.variant is Variant.LATE else NEXT_ID


def block_count(shape: Shape, date_number: int) -> int:
    return -(-shape.rows_of_dates()[date_number] // BLOCK_ROWS)


def make_block(shape: Shape, date_number: int, block_number: int) -> Block:
    rows, count = shape.rows_of_dates()[date_number], block_count(shape, date_number)
    rng = np.random.default_rng([shape.seed, date_number, block_number])
    keys = _keys(rng, block_number, count, rows // count)
    return _block(shape, shape.differing_of_dates()[date_number], rng, keys)


def _keys(rng: np.random.Generator, number: int, count: int, rows: int) -> Keys:
    """About so many unique keys in ascending order: some products are in many stores, most attributes are filled."""
    products = max(_FEWEST_PRODUCTS, rows // _ROWS_A_PRODUCT)
    wanted = max(1, round(rows / (ATTRIBUTES * _FILLED)))
    drawn = int(wanted * 1.4) + 16
    pairs = (products * rng.random(drawn) ** 1.3).astype(np.int64) * STORES + rng.integers(0, STORES, drawn)
    pairs = np.unique(pairs)
    if len(pairs) > wanted:
        pairs = np.sort(rng.choice(pairs, wanted, replace=False))
    filled = np.flatnonzero(rng.random(len(pairs) * ATTRIBUTES) < _FILLED)
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


def _block(shape: Shape, differing: float, rng: np.random.Generator, keys: Keys) -> Block:
    count = len(keys.product)
    values = _values(rng, keys.attribute)
    role = rng.random(count)
    kept = role >= 1 - shape.kept
    changed, new, missing = _between(role, differing * (1 - shape.kept), (_CHANGED, _NEW, _MISSING))
    in_arriving = ~(kept | missing)
    in_before = ~(kept | new)
    in_old = kept | (new & (rng.random(count) < _RETURNING))
    arriving_values = values + np.where(changed, rng.integers(1, 50, count), 0)
    arriving, best = _with_duplicates(shape, rng, keys, arriving_values, in_arriving)
    wins = in_arriving & (~in_before | (snapshot_id(shape) > STATE_ID))
    ids = np.where(wins, snapshot_id(shape), np.where(in_before, STATE_ID, OLDEST_ID))
    before_order = shape.variant not in (Variant.SORTED, Variant.SHUFFLED)
    arriving_order = shape.variant is not Variant.SORTED
    return Block(
        old=_rows(keys, values, in_old, OLDEST_ID),
        before=_ordered(rng, _rows(keys, values, in_before, STATE_ID), shuffled=before_order),
        arriving=_ordered(rng, arriving, shuffled=arriving_order),
        answer=Rows(keys, np.where(wins, best, values), ids),
    )


def _between(role: NDArray[np.float64], differing: float, parts: tuple[float, ...]) -> list[Flags]:
    """Flags of consecutive parts of the range from 0 to `differing`."""
    bounds = np.cumsum([0.0, *(part * differing for part in parts)])
    return [(role >= low) & (role < high) for low, high in pairwise(bounds)]


def _rows(keys: Keys, values: Integers, chosen: Flags, row_id: int) -> Rows:
    return Rows(keys.of(chosen), values[chosen], np.full(int(chosen.sum()), row_id, dtype=np.int64))


def _with_duplicates(
    shape: Shape, rng: np.random.Generator, keys: Keys, values: Integers, present: Flags
) -> tuple[Rows, Integers]:
    """The arriving rows, and for every key the value that must win among them: the greatest."""
    rows = _rows(keys, values, present, snapshot_id(shape))
    if shape.variant is not Variant.DUPLICATES:
        return rows, values
    again = np.flatnonzero(present & (rng.random(len(values)) < _DUPLICATED))
    other = values[again] + np.where(np.arange(len(again)) % 2, rng.integers(-5, 60, len(again)), 0)
    best = values.copy()
    np.maximum.at(best, again, other)
    more = Rows(keys.of(again), other, np.full(len(again), snapshot_id(shape), dtype=np.int64))
    return _concatenated(rows, more), best


def _concatenated(one: Rows, other: Rows) -> Rows:
    def both(a: Integers, b: Integers) -> Integers:
        return np.concatenate([a, b])

    keys = Keys(
        both(one.keys.product, other.keys.product),
        both(one.keys.store, other.keys.store),
        both(one.keys.attribute, other.keys.attribute),
    )
    return Rows(keys, both(one.values, other.values), both(one.ids, other.ids))


def _ordered(rng: np.random.Generator, rows: Rows, *, shuffled: bool) -> Rows:
    return rows.of(rng.permutation(len(rows))) if shuffled else rows
