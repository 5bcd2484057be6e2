"""Sums up a set of rows so that the difference of two sets can be read from the difference of their sums.

A sketch has two tables of cells. Each row is added to one cell of each table: its words are permuted by the feed's seed
and added to the cell's words; the highest bits of the first permuted word name the cell of the first table, those of
the second word the cell of the second table. If the sketch of one set is subtracted from that of another, equal rows
cancel, and what is left are sums of the rows that differ. A cell with a single such row gives the row away: turned
back, its spare bits are zero, and it belongs into this cell. Subtracting it from its other cell leaves a single row
there, and so on (`peel`). What a sum of several rows would give has spare bits at random, so it passes for a row with a
probability of 2^-32, and even then some cell is left in the end.

Rows can be added in any order, and sketches of disjoint sets can be added. docs/adr/0017-invertible-sketch.md shows it
in a picture, and docs/adr/0005-adopt.md says what is guaranteed, and against whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Self

import numpy as np

from dedup_spark.arrays import BoolArray, I64Array, Indices, U64Array
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.sketch.permutation import Permutation
from dedup_spark.sketch.row_words import SPARE_BITS, RowEncoder

MIN_BITS, MAX_BITS = 7, 22
# The sketches of all inputs of a date are in memory at a time, and a difference of two, beside the rows that are read.
_MAX_BYTES = 288 << 20
_TABLES = 2
# With eight cells for each differing row, about one date in a hundred has rows that cannot be told apart.
_CELLS_PER_DIFFERING_ROW = 8
# At least this share of a date's rows is expected to differ, whatever differed last time.
_LEAST_SHARE = 0.002
_FEW_CELLS = 1 << 10
# The rows of a change are copied this many at a time, which is as many as a batch of a file has.
_COPIED_ROWS = 1 << 16
# Rows are permuted in blocks, so that the arrays of a block stay in a core's own cache. They are then added to one line
# of cells after the other, so that each line stays in the cache, too.
_BLOCK_ROWS = 8192
# Rows come out of a sketch in about as many rounds as the logarithm of their number. More rounds find nothing.
_MAX_ROUNDS = 1000


def bits_for(rows: int, differing_rows: int, word_count: int, older_deliveries: int = 0) -> int:
    """Return how many bits the number of a cell has, for a date of `rows` rows of `word_count` words each.

    `differing_rows`: how many rows differed last time, added and removed ones; 0 if that is unknown.
    `older_deliveries`: how many sketches there are besides those of the newest delivery and of the parent.
    """
    expected = max(differing_rows, rows * _LEAST_SHARE)
    cells = max(int(_CELLS_PER_DIFFERING_ROW * expected), min(_FEW_CELLS, 2 * rows))
    most_cells = _MAX_BYTES // ((3 + older_deliveries) * 8 * _TABLES * word_count)
    return max(min(cells.bit_length(), most_cells.bit_length() - 1, MAX_BITS), MIN_BITS)


@dataclass(frozen=True)
class Difference:
    """The rows by which one set differs from another: their words, and how many more of each the first set has.

    `counts` are negative for rows that only the second set has. Each row is there once.
    """

    words: U64Array
    counts: I64Array

    def __len__(self) -> int:
        return len(self.counts)


@dataclass
class Sketch:
    """A sketch of `rows` rows. `cells`: by table and word, a sum for each of `2**bits` cells.

    A difference of sketches is a sketch, too, whose `rows` may be negative.
    """

    encoder: RowEncoder
    bits: int
    rows: int
    cells: U64Array

    @classmethod
    def empty(cls, encoder: RowEncoder, bits: int) -> Self:
        return cls(encoder, bits, 0, np.zeros((_TABLES, encoder.word_count, 1 << bits), np.uint64))

    def add(self, words: U64Array) -> None:
        """Add rows, given by their words: one line for each word."""
        self._change(words, np.add)
        self.rows += words.shape[1]

    def remove(self, words: U64Array) -> None:
        self._change(words, np.subtract)
        self.rows -= words.shape[1]

    def _change(self, words: U64Array, operation: np.ufunc) -> None:
        for first in range(0, words.shape[1], _COPIED_ROWS):
            permuted = words[:, first : first + _COPIED_ROWS].copy()
            for start in range(0, permuted.shape[1], _BLOCK_ROWS):
                self.permutation.apply(permuted[:, start : start + _BLOCK_ROWS])
            self._change_cells(permuted, operation)

    def _change_cells(self, permuted: U64Array, operation: np.ufunc) -> None:
        for table in range(_TABLES):
            cells = _cells_of(permuted, table, self.bits)
            for sums, word in zip(self.cells[table], permuted, strict=True):
                operation.at(sums, cells, word)

    @property
    def permutation(self) -> Permutation:
        return _permutation(self.encoder.seed, self.encoder.word_count)

    def add_all(self, other: Sketch) -> None:
        """Add the rows of `other`, which has the same encoder and as many cells."""
        self.cells += other.cells
        self.rows += other.rows

    def minus(self, other: Sketch) -> Sketch:
        """The difference of two sketches with the same encoder, with as many cells as the smaller one has."""
        assert self.encoder == other.encoder
        bits = min(self.bits, other.bits)
        cells = self._coarse_cells(bits) - other._coarse_cells(bits)
        return Sketch(self.encoder, bits, self.rows - other.rows, cells)

    def _coarse_cells(self, bits: int) -> U64Array:
        """The sums of `2**bits` cells in each table: at most as many as this sketch has."""
        if bits == self.bits:
            return self.cells
        neighbours = self.cells.reshape(*self.cells.shape[:2], 1 << bits, -1)
        return np.asarray(neighbours.sum(axis=3, dtype=np.uint64))

    def digest(self) -> str:
        """Return text that identifies the rows, whatever the number of cells: their number, and the digest of sums."""
        sums = self.cells[0].sum(axis=1, dtype=np.uint64)
        return f"{self.rows:x}-{blake2b(sums.astype('<u8').tobytes(), digest_size=16).hexdigest()}"

    def peel(self) -> Difference | Remainder:
        """Return the rows of this sketch, which is a difference of two sketches, or what is left of it.

        The sketch is used up: its cells change.
        """
        found: list[tuple[U64Array, int]] = []
        changed = [np.flatnonzero(self.cells[table].any(axis=0)) for table in range(_TABLES)]
        for number in range(_MAX_ROUNDS):
            table, other = number % _TABLES, 1 - number % _TABLES
            for permuted, sign in self._single_rows(changed[table], table):
                self._change_cells(permuted, np.subtract if sign > 0 else np.add)
                changed[other] = np.union1d(changed[other], _cells_of(permuted, other, self.bits))
                found.append((permuted, sign))
            changed[table] = changed[table][:0]
            if not any(map(len, changed)):
                break
        difference = self._net(found)
        if self.cells.any() or difference.counts.sum() != self.rows:
            return Remainder(self, difference)
        return difference

    def _single_rows(self, cells: Indices, table: int) -> list[tuple[U64Array, int]]:
        """The rows, as permuted words, of those `cells` that are a single row, added (1) or removed (-1)."""
        sums = self.cells[table][:, cells]
        is_used = sums.any(axis=0)
        sums, cells = sums[:, is_used], cells[is_used]
        rows = []
        for sign, permuted in ((1, sums), (-1, np.uint64(0) - sums)):
            words = permuted.copy()
            self.permutation.undo(words)
            is_row: BoolArray = words[-1] >> np.uint64(64 - SPARE_BITS) == 0
            is_row &= _cells_of(permuted, table, self.bits) == cells
            if is_row.any():
                rows.append((permuted[:, is_row], sign))
        return rows

    def _net(self, found: Sequence[tuple[U64Array, int]]) -> Difference:
        """The found rows, each once with its count, without those that were found as added and as removed."""
        words = np.concatenate(
            [np.zeros((self.encoder.word_count, 0), np.uint64), *(rows for rows, _ in found)], axis=1
        )
        counts = np.concatenate([np.zeros(0, np.int64), *(np.full(rows.shape[1], sign) for rows, sign in found)])
        self.permutation.undo(words)
        groups, firsts = group_equal(words)
        totals = np.zeros(len(firsts), np.int64)
        np.add.at(totals, groups, counts)
        return Difference(words[:, firsts[totals != 0]], totals[totals != 0])


@dataclass(frozen=True)
class Remainder:
    """What is left of a difference if some rows cannot be told apart: `sketch` is their sum, `told` are the others."""

    sketch: Sketch
    told: Difference

    @cached_property
    def is_left(self) -> BoolArray:
        """By table, the cells with the rows that cannot be told apart; all cells if none is left: `told` is wrong."""
        is_left = np.asarray(self.sketch.cells.any(axis=1))
        return is_left if is_left.any() else ~is_left

    def rows_in(self, words: U64Array) -> Indices:
        """Indices of the rows that are in such a cell of each table."""
        found: BoolArray = np.ones(words.shape[1], dtype=bool)
        for start in range(0, words.shape[1], _BLOCK_ROWS):
            permuted = words[:, start : start + _BLOCK_ROWS].copy()
            self.sketch.permutation.apply(permuted)
            for table, is_left in enumerate(self.is_left):
                found[start : start + _BLOCK_ROWS] &= is_left[_cells_of(permuted, table, self.sketch.bits)]
        return np.flatnonzero(found)

    def is_difference_of(self, later: U64Array, earlier: U64Array) -> bool:
        """Whether two sets with this difference have these rows in such cells, and otherwise differ only by `told`.

        A sum of several rows that passed for a row may have emptied a cell, whose rows are then not found. The
        remainder is used up.
        """
        inside = self.rows_in(self.told.words)
        words, counts = self.told.words[:, inside], self.told.counts[inside]
        self.sketch.add(np.repeat(words, np.maximum(counts, 0), axis=1))
        self.sketch.remove(np.repeat(words, np.maximum(-counts, 0), axis=1))
        self.sketch.remove(later)
        self.sketch.add(earlier)
        return not self.sketch.cells.any()


def group_equal(words: U64Array) -> tuple[Indices, Indices]:
    """Number the distinct rows of `words` from 0 on. Return the number of each row, and of each number one row."""
    order = np.lexsort(words)
    ordered = words[:, order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    groups = np.empty(len(order), np.intp)
    groups[order] = np.cumsum(is_first) - 1
    return groups, order[is_first]


def _cells_of(permuted: U64Array, table: int, bits: int) -> Indices:
    """The number of each row's cell in a table."""
    cells: Indices = (permuted[table] >> np.uint64(64 - bits)).view(np.intp)
    return cells


@lru_cache
def _permutation(seed: Seed, word_count: int) -> Permutation:
    return Permutation(seed, word_count)
