"""Reads the files of one input of a comparison, in batches of rows with the hashes of their keys.

The first pass caches a file's keys in memory if the budget allows. Later passes decode all other files again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from dedup_clone.contract.table import TableContract
from dedup_spark.arrays import NO_INDICES, I64Array, Indices, U64Array
from dedup_spark.comparison.key_reader import KeyBatch, KeyReader
from dedup_spark.comparison.memory_budget import MemoryBudget
from dedup_spark.comparison.selected_rows import take_rows
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.value_hashing import ValueHasher


@dataclass(frozen=True)
class RowHashers:
    """Hashes the keys of rows, and their values where these are compared too."""

    keys: KeyHasher
    values: ValueHasher | None

    @classmethod
    def for_table(cls, table: TableContract, seed: Seed, *, compare_values: bool) -> Self:
        values = ValueHasher(table.value_columns, seed) if compare_values else None
        return cls(KeyHasher(key_columns(table), seed), values)


@dataclass(frozen=True)
class HashedBatch:
    """A batch with the first hashes of its keys. `value_hashes`: the hashes of its values; None if not computed."""

    batch: KeyBatch
    first_hashes: U64Array
    value_hashes: U64Array | None

    @property
    def nbytes(self) -> int:
        """Bytes in memory, including value hashes, which may be added later."""
        return self.batch.nbytes + 2 * self.first_hashes.nbytes

    def without_values(self) -> HashedBatch:
        return replace(self, batch=replace(self.batch, value_columns=None))


@dataclass
class HashedFiles:
    """The files of one input, numbered from 0 in the order of `uris`.

    `constant_ids`: for each file the update_id of all its rows; None if the rows' own ids have to be read.
    `caches_values`: whether the first pass caches values too, where the budget allows, so that the values of survivors
    need not be read again. Rows with cached values are hashed only when they are passed to `take` or `value_hashes`.
    `budget`: the memory for the cache.
    """

    reader: KeyReader
    hashers: RowHashers
    uris: Sequence[str]
    constant_ids: Sequence[int | None]
    budget: MemoryBudget
    caches_values: bool = False
    _cached_batches: dict[int, list[HashedBatch]] = field(default_factory=dict)

    def first_pass(self, number: int) -> Iterator[tuple[HashedBatch, U64Array]]:
        """Yield a file's batches, each with its second hashes, and cache the keys if the budget allows.

        Batches whose values are cached have no value hashes yet.
        """
        cached_batches: list[HashedBatch] | None = []
        values = self.hashers.values
        for batch in self._read(number, with_values=values is not None):
            first, second = self.hashers.keys.both(batch.key_columns)
            hashed = HashedBatch(batch, first, None)
            if cached_batches is not None and self.caches_values and self.budget.reserve(hashed.nbytes):
                cached_batches.append(hashed)
            else:
                if values and batch.value_columns is not None:
                    hashed = replace(hashed, value_hashes=values.hash(first, batch.value_columns))
                without_values = hashed.without_values()
                if cached_batches is not None and self.budget.reserve(without_values.nbytes):
                    cached_batches.append(without_values)
                elif cached_batches is not None:  # a file is cached as a whole or not at all
                    self.budget.release(sum(cached.nbytes for cached in cached_batches))
                    cached_batches = None
            yield hashed, second
        if cached_batches is not None:
            self._cached_batches[number] = cached_batches

    def second_pass(self, number: int, *, with_values: bool) -> Iterator[HashedBatch]:
        """Yield a file's batches: the cached ones as they are, others decoded again, with values if `with_values`."""
        if number in self._cached_batches:
            yield from self._cached_batches[number]
        else:
            for batch in self._read(number, with_values=with_values):
                yield HashedBatch(batch, self.hashers.keys.first(batch.key_columns), None)

    def take(self, hashed: HashedBatch, rows: Indices, value_budget: MemoryBudget) -> HashedBatch:
        """Return these rows of a batch, with value hashes if values are compared.

        Value columns are left out if `value_budget` has no room for them.
        """
        batch, first_hashes = hashed.batch, hashed.first_hashes[rows]
        values = None if batch.value_columns is None else take_rows(batch.value_columns, rows)
        value_hashes = None
        if hashed.value_hashes is not None:
            value_hashes = hashed.value_hashes[rows]
        elif self.hashers.values is not None and values is not None:
            value_hashes = self.hashers.values.hash(first_hashes, values)
        if values is not None and not value_budget.reserve(sum(array.nbytes for array in values)):
            values = None
        ids = None if batch.update_ids is None else batch.update_ids[rows]
        taken = KeyBatch(batch.first_row, take_rows(batch.key_columns, rows), ids, values)
        return HashedBatch(taken, first_hashes, value_hashes)

    def value_hashes(self, hashed: HashedBatch, rows: Indices) -> U64Array:
        """The value hashes of these rows of a batch. Values must have been read or hashed."""
        if hashed.value_hashes is not None:
            return hashed.value_hashes[rows]
        assert self.hashers.values
        assert hashed.batch.value_columns is not None
        return self.hashers.values.hash(hashed.first_hashes[rows], take_rows(hashed.batch.value_columns, rows))

    def with_id(self, number: int, batch: KeyBatch, rows: Indices, only_id: int | None) -> Indices:
        """Those `rows` of a batch of file `number` that have the update_id `only_id`; all `rows` if that is None."""
        if only_id is None:
            return rows
        if batch.update_ids is None:
            return rows if self.constant_ids[number] == only_id else NO_INDICES
        return np.asarray(rows[batch.update_ids[rows] == only_id])

    def update_ids(self, number: int, batch: KeyBatch) -> I64Array:
        """The update_ids of all rows of a batch of file `number`."""
        ids = batch.update_ids
        return np.full(batch.rows, self.constant_ids[number], np.int64) if ids is None else ids

    def _read(self, number: int, *, with_values: bool) -> Iterator[KeyBatch]:
        with_ids = self.constant_ids[number] is None
        return self.reader.batches(self.uris[number], with_ids=with_ids, with_values=with_values)
