"""Generates the rows of the parent's snapshots, of the arriving snapshots and of the table that must result.

The rows of a date are generated in blocks of about BLOCK_ROWS keys at most, so that a date of any size needs the same
memory. No two blocks of a date have a product in common. The same shape, date and block always give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.dataset import DatasetShape, RowCounts, Variant

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLOCK_ROWS = 4_000_000
STORES, ATTRIBUTES = 500, 10
_FILLED_SHARE = 0.8  # share of the ATTRIBUTES that a product has in a store, on average
_ROWS_PER_PRODUCT, _MIN_PRODUCTS = 50, 200
_FIRST_PRODUCT, _LAST_PRODUCT = 1_000_000, 100_000_000
_CHANGED_SHARE, _NEW_SHARE, _MISSING_SHARE = 0.4, 0.3, 0.3  # shares of the differing rows
_RETURNING_SHARE = 0.1  # share of the new keys that the oldest snapshot also had
_DUPLICATED_SHARE = 0.001  # share of the keys that Variant.DUPLICATES repeats
# Ids of snapshots: the oldest snapshot; the arriving snapshot of Variant.LATE; the parent's newest snapshot, which is
# also the arriving snapshot of Variant.CORRECTION; and the first arriving snapshot of any other variant.
OLDEST_ID, LATE_ID, PARENT_ID, NEXT_ID = 1001, 1004, 1006, 1007
_NO_ID = 0  # in place of the snapshot id of keys that the parent lacks


@dataclass(frozen=True)
class Keys:
    """The key columns of rows. Each product is a number, even if the files store it as text."""

    product: Integers
    store: Integers
    attribute: Integers

    def take(self, selection: Flags | Integers) -> Keys:
        return Keys(self.product[selection], self.store[selection], self.attribute[selection])


@dataclass(frozen=True)
class GeneratedRows:
    """Rows of a snapshot or of the resulting table. `ids`: the snapshot id of each row."""

    keys: Keys
    values: Integers
    ids: Integers

    def __len__(self) -> int:
        return len(self.values)

    def take(self, selection: Flags | Integers) -> GeneratedRows:
        return GeneratedRows(self.keys.take(selection), self.values[selection], self.ids[selection])


@dataclass(frozen=True)
class Block:
    """The rows of one block: those of each snapshot of the data set, and those that their publishes must give.

    `oldest`: the oldest snapshot, which has only keys that `parent` lacks. `parent`: the parent's newest snapshot.
    `arriving`: the snapshots whose publish is measured, in ascending order of their ids. `expected`: one row for each
    key of the block. `counts`: how the arriving snapshots differ from the parent.
    """

    oldest: GeneratedRows
    parent: GeneratedRows
    arriving: tuple[GeneratedRows, ...]
    expected: GeneratedRows
    counts: RowCounts


def snapshot_ids(shape: DatasetShape) -> tuple[int, ...]:
    """The ids of the arriving snapshots, ascending."""
    first = {Variant.LATE: LATE_ID, Variant.CORRECTION: PARENT_ID}.get(shape.variant, NEXT_ID)
    return tuple(range(first, first + (6 if shape.variant is Variant.BACKLOG_6 else 1)))


def block_count(shape: DatasetShape) -> int:
    """The number of blocks of each date."""
    return -(-shape.rows_per_date // BLOCK_ROWS)


def make_block(shape: DatasetShape, date_number: int, block_number: int) -> Block:
    """Generate a block. `date_number`: the index of its date in `shape.days()`. `block_number`: from 0."""
    count = block_count(shape)
    rng = np.random.default_rng([shape.seed, date_number, block_number])
    return _generate_block(shape, rng, _generate_keys(rng, block_number, count, shape.rows_per_date // count))


def _generate_keys(rng: np.random.Generator, number: int, count: int, rows: int) -> Keys:
    """About `rows` unique keys, in ascending order, of block `number` of `count`. Some products are in many stores."""
    products = max(_MIN_PRODUCTS, rows // _ROWS_PER_PRODUCT)
    pair_count = max(1, round(rows / (ATTRIBUTES * _FILLED_SHARE)))
    drawn = int(pair_count * 1.4) + 16  # more than needed, because some pairs are drawn twice
    # Each pair of a product and a store as one number. The exponent makes products with low numbers more frequent.
    pairs = (products * rng.random(drawn) ** 1.3).astype(np.int64) * STORES + rng.integers(0, STORES, drawn)
    pairs = np.unique(pairs)
    if len(pairs) > pair_count:
        pairs = np.sort(rng.choice(pairs, pair_count, replace=False))
    filled = np.flatnonzero(rng.random(len(pairs) * ATTRIBUTES) < _FILLED_SHARE)
    pair, attribute = pairs[filled // ATTRIBUTES], filled % ATTRIBUTES
    # Ids of products ascend with their numbers, at irregular distances.
    step = (_LAST_PRODUCT - _FIRST_PRODUCT) // (products * count)
    return Keys(
        product=_FIRST_PRODUCT + (number * products + pair // STORES) * step + (pair // STORES * 7919) % step,
        store=1_000 + (pair % STORES) * 197,
        attribute=1 + attribute * 99,
    )


def _generate_values(rng: np.random.Generator, attribute: Integers) -> Integers:
    """Log-normal values, whose mean and spread grow with the number of the attribute."""
    number = attribute // 99
    spread = 0.3 + 0.09 * number
    return np.exp(1 + 0.8 * number + spread * rng.standard_normal(len(number))).astype(np.int64)


def _generate_block(shape: DatasetShape, rng: np.random.Generator, keys: Keys) -> Block:
    count, arriving_ids = len(keys.product), snapshot_ids(shape)
    values = _generate_values(rng, keys.attribute)
    draws = rng.random(count)
    is_survivor = draws >= 1 - shape.survivor_share
    # One list, snapshot after snapshot: the masks of the changed, the new and the missing rows of each.
    kinds = (_CHANGED_SHARE, _NEW_SHARE, _MISSING_SHARE)
    differing_rows = _draw_masks(draws, shape.differing * (1 - shape.survivor_share), kinds * len(arriving_ids))
    all_new = np.logical_or.reduce(differing_rows[1 :: len(kinds)])
    in_parent = ~(is_survivor | all_new)
    in_oldest = is_survivor | (all_new & (rng.random(count) < _RETURNING_SHARE))
    increase = rng.integers(1, 50, count)
    expected = GeneratedRows(keys, values, np.where(in_parent, PARENT_ID, np.where(in_oldest, OLDEST_ID, _NO_ID)))
    # As of the last snapshot so far: which keys of the block it has (`present`), and the value of every key of the
    # block, also of those that it lacks (`current`).
    present, current, arriving = in_parent, values, []
    for number, arriving_id in enumerate(arriving_ids):
        changed, new, missing = differing_rows[number * len(kinds) :][: len(kinds)]
        present, current = (present | new) & ~missing, current + np.where(changed, increase, 0)
        unique_rows = _select_rows(keys, current, present, arriving_id)
        rows, greatest = _add_duplicates(shape, rng, unique_rows, current, present)
        wins = present & (expected.ids <= arriving_id)
        expected = GeneratedRows(
            keys, np.where(wins, greatest, expected.values), np.where(wins, arriving_id, expected.ids)
        )
        arriving.append(rows)
    in_before = in_parent | in_oldest
    counts = RowCounts(
        new=int((~in_before).sum()),
        changed=int((in_before & (expected.values != values)).sum()),
        survivors=int((~present).sum()),
        duplicates=len(arriving[-1]) - int(present.sum()),
    )
    return Block(
        oldest=_select_rows(keys, values, in_oldest, OLDEST_ID),
        parent=_shuffle(rng, _select_rows(keys, values, in_parent, PARENT_ID)),
        arriving=tuple(_shuffle(rng, rows) for rows in arriving),
        expected=expected,
        counts=counts,
    )


def _draw_masks(draws: NDArray[np.float64], differing: float, shares: tuple[float, ...]) -> list[Flags]:
    """One mask for each of `shares`, which selects that share of the differing rows. The masks do not overlap.

    `draws`: a random number below 1 for each row; a row differs if its number is below `differing`.
    """
    bounds = np.cumsum([0.0, *(share * differing for share in shares)])
    return [(draws >= low) & (draws < high) for low, high in pairwise(bounds)]


def _select_rows(keys: Keys, values: Integers, selected: Flags, row_id: int) -> GeneratedRows:
    """The rows of the selected keys, all with the snapshot id `row_id`."""
    return GeneratedRows(keys.take(selected), values[selected], np.full(int(selected.sum()), row_id, dtype=np.int64))


def _add_duplicates(
    shape: DatasetShape, rng: np.random.Generator, rows: GeneratedRows, values: Integers, present: Flags
) -> tuple[GeneratedRows, Integers]:
    """Add duplicate keys to the rows of a snapshot, if the shape has any.

    Returns the rows with the duplicates, and for every key of the block its greatest value, which must be published.
    `values`: the value of every key of the block without duplicates. `present`: which of these keys `rows` has.
    """
    if shape.variant is not Variant.DUPLICATES:
        return rows, values
    repeated = np.flatnonzero(present & (rng.random(len(values)) < _DUPLICATED_SHARE))
    second_values = values[repeated] + np.where(np.arange(len(repeated)) % 2, rng.integers(-5, 60, len(repeated)), 0)
    greatest = values.copy()
    np.maximum.at(greatest, repeated, second_values)
    position = np.cumsum(present) - 1  # the index in `rows` of each present key's row
    surplus = rows.take(position[repeated])
    return _concatenate(rows, GeneratedRows(surplus.keys, second_values, surplus.ids)), greatest


def _concatenate(first: GeneratedRows, second: GeneratedRows) -> GeneratedRows:
    def joined(a: Integers, b: Integers) -> Integers:
        return np.concatenate([a, b])

    keys = Keys(
        joined(first.keys.product, second.keys.product),
        joined(first.keys.store, second.keys.store),
        joined(first.keys.attribute, second.keys.attribute),
    )
    return GeneratedRows(keys, joined(first.values, second.values), joined(first.ids, second.ids))


def _shuffle(rng: np.random.Generator, rows: GeneratedRows) -> GeneratedRows:
    return rows.take(rng.permutation(len(rows)))
