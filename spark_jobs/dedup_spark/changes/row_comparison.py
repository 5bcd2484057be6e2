"""Compares a date's rows with the parent's: which keys are new, have other values, went missing or came back.

Memory does not grow with the date. A first pass over the files of both generations sums up hashes of all rows in
buckets of keys. A second pass selects the rows of the buckets whose sums differ, and compares them range by range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dedup_clone.contract.table import ChangeType, UpdateIdMode
from dedup_spark.arrays import BoolArray, I64Array, Indices, U64Array
from dedup_spark.comparison.aligned_rows import ABSENT, align
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.sketch.row_words import RowEncoder

# The number of rows, new and old together, that are compared at a time; each takes about 100 bytes in memory.
ROWS_PER_RANGE = 2 << 20
# Buckets have about 16 rows, so few unchanged rows are compared. Their sums and counts take at most 48 MB.
_ROWS_PER_BUCKET = 16
_MAX_BITS = 22
# `_mixed` multiplies by this odd number (2^64 divided by the golden ratio), and shifts by half a word.
_ODD, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
# `RowChanges.types` has positions in this tuple.
TYPES = tuple(ChangeType)


@dataclass(frozen=True)
class RowsOfDate:
    """A date's rows in one of the two generations: the URIs of the date's files, and how many rows these have.

    `newest_id`: the update id of the rows that the date's newest snapshot contains; None if update ids do not tell
    which rows these are (DateEntry.newest_snapshot).
    """

    uris: tuple[str, ...]
    rows: int
    newest_id: int | None


class RowChanges(NamedTuple):
    """Some changes. `new`: the rows of the new generation. `old`: the parent's row of each.

    `new` is None if all rows were deleted, `old` if all keys are new. `types`: for each change the position of its type
    in TYPES.
    """

    new: SelectedRows | None
    old: SelectedRows | None
    types: Indices


@dataclass(frozen=True)
class RowComparison:
    """Compares the rows of a date."""

    reader: KeyReader
    encoder: RowEncoder
    mode: UpdateIdMode

    def source(self, rows: RowsOfDate) -> KeySource:
        """A reader of these rows."""
        return KeySource(self.reader, self.encoder, rows.uris, [None] * len(rows.uris))

    def changes(self, new: RowsOfDate, old: RowsOfDate, rows_per_range: int) -> Iterator[RowChanges]:
        """Yield all changes of the date; about `rows_per_range` rows are compared at a time."""
        bits = min(max((max(new.rows, old.rows) // _ROWS_PER_BUCKET).bit_length(), 1), _MAX_BITS)
        sums, counts = np.zeros(1 << bits, np.uint64), np.zeros(1 << bits, np.uint32)
        has_ids = new.newest_id is not None and old.newest_id is not None
        for rows, operation in ((new, np.add), (old, np.subtract)):
            for codes, hashes in self._row_hashes(rows, has_ids=has_ids):
                buckets = _bucket_of(codes, bits)
                operation.at(sums, buckets, hashes)
                np.add.at(counts, buckets, 1)
        differs = sums != 0
        if not differs.any():
            return
        range_count = int(counts[differs].sum(dtype=np.uint64)) // rows_per_range + 1
        selected = [RangedRows(range_count) for _ in (new, old)]
        for rows, ranged_rows in zip((new, old), selected, strict=True):
            self.source(rows).select_into(ranged_rows, lambda codes: np.flatnonzero(differs[_bucket_of(codes, bits)]))
        for number in range(range_count):
            new_rows, old_rows = (rows.of_range(number) for rows in selected)
            yield from self._compare(new_rows, old_rows, new.newest_id, old.newest_id)

    def _row_hashes(self, rows: RowsOfDate, *, has_ids: bool) -> Iterator[tuple[U64Array, U64Array]]:
        """Yield, batch by batch, the codes of keys, and hashes of whole rows, which differ if a row changed.

        `has_ids`: in both generations the update id tells whether the newest snapshot contains a row. Then this yes or
        no is hashed, too; in mode last_changed the update id itself.
        """
        for uri in rows.uris:
            for batch in self.reader.batches(uri, with_ids=True, with_values=True):
                assert batch.update_ids is not None
                assert batch.value_columns is not None
                hashes = self.encoder.value_hashes(batch.key_columns, batch.value_columns)
                if self.mode is UpdateIdMode.LAST_CHANGED:
                    hashes = _mixed(hashes, batch.update_ids)
                elif has_ids:
                    hashes = _mixed(hashes, batch.update_ids == rows.newest_id)
                yield self.encoder.key_codes(batch.key_columns), hashes

    def _compare(
        self, new: SelectedRows, old: SelectedRows, newest_id: int | None, old_newest_id: int | None
    ) -> Iterator[RowChanges]:
        """Yield the changes of one range: new keys, deleted keys, then the keys that both generations have.

        `newest_id`, `old_newest_id`: the `newest_id` of the new rows and of the old ones.
        """
        new_rows, old_rows = align(self.encoder.keys, [new, old])
        added, is_common = new_rows[old_rows == ABSENT], (new_rows != ABSENT) & (old_rows != ABSENT)
        if len(added):
            yield RowChanges(new.take(added), None, np.full(len(added), TYPES.index(ChangeType.NEW), np.intp))
        deleted = old_rows[new_rows == ABSENT]
        if len(deleted):
            types = np.full(len(deleted), TYPES.index(ChangeType.DELETED), np.intp)
            yield RowChanges(None, old.take(deleted), types)
        new, old = new.take(new_rows[is_common]), old.take(old_rows[is_common])
        types = np.full(len(new), -1, np.intp)
        is_changed = new.value_hashes != old.value_hashes
        if self.mode is UpdateIdMode.LAST_CHANGED:
            is_changed |= new.update_ids != old.update_ids
        types[is_changed] = TYPES.index(ChangeType.CHANGED)
        if newest_id is not None and old_newest_id is not None:
            is_delivered, was_delivered = new.update_ids == newest_id, old.update_ids == old_newest_id
            types[is_delivered & ~was_delivered] = TYPES.index(ChangeType.RETURNED)
            types[was_delivered & ~is_delivered] = TYPES.index(ChangeType.MISSING)
        rows = np.flatnonzero(types >= 0)
        if len(rows):
            yield RowChanges(new.take(rows), old.take(rows), types[rows])


def _bucket_of(codes: U64Array, bits: int) -> Indices:
    """The bucket number of each key: the highest bits of its code."""
    return (codes >> np.uint64(64 - bits)).view(np.intp)


def _mixed(hashes: U64Array, numbers: I64Array | BoolArray) -> U64Array:
    """Hash each hash together with the number at its position.

    The square keeps sums of the results from staying equal when rows exchange their numbers.
    """
    mixed = (hashes ^ (numbers.astype(np.uint64) * _ODD)) * _ODD
    return np.asarray((mixed * mixed) ^ (mixed >> _SHIFT))
