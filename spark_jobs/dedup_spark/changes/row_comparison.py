"""Compares a date's rows with the parent's: which keys are new, have other values, went missing or came back.

Memory does not grow with the date: the selected rows of both generations are compared range by range. In mode last_seen
the stored sketches tell how the rows of the newest snapshots differ, so only survivors are read. In mode last_changed
the update ids tell which rows may have changed. If neither does, all rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dedup_clone.contract.table import Absent, ChangeType, UpdateIdMode
from dedup_spark.arrays import ABSENT, EMPTY_U64, Indices, U64Array
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.keys import align, with_codes
from dedup_spark.comparison.selected_rows import RangedRows, RowSelector, SelectedRows, every_row
from dedup_spark.parent import ParentDate
from dedup_spark.plans.difference.comparison_inputs import stored_base
from dedup_spark.sketch.chain import KeyVersions, peel_chain
from dedup_spark.sketch.row_words import RowEncoder

# The number of rows, new and old together, that are compared at a time; each takes about 100 bytes in memory.
ROWS_PER_RANGE = 2 << 20
# `RowChanges.types` has positions in this tuple.
TYPES = tuple(ChangeType)


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
    """Compares the rows of a date in two generations. `applied`: the snapshot ids that the publish has applied.

    `encoder`: takes all rows of the table.
    """

    reader: KeyReader
    encoder: RowEncoder
    mode: UpdateIdMode
    applied: tuple[int, ...]

    def source(self, rows: ParentDate, encoder: RowEncoder | None = None) -> KeySource:
        """A reader of these rows."""
        return KeySource(self.reader, encoder or self.encoder, [rows.uri(file) for file in rows.files])

    def changes(self, new: ParentDate, old: ParentDate, rows_per_range: int) -> Iterator[RowChanges]:
        """Yield all changes of the date; about `rows_per_range` rows are compared at a time."""
        deletes = self.reader.table.absent_keys is Absent.DELETE  # a deleted row has left no update id
        if self.mode is UpdateIdMode.LAST_CHANGED and not deletes:
            codes = self._codes_of_applied(new)
            selected = self._selected(new, old, self.encoder, with_codes(codes), 2 * len(codes) // rows_per_range + 1)
        elif self.mode is UpdateIdMode.LAST_SEEN and (difference := self._difference(new, old)) is not None:
            selected = self._of_difference(new, old, *difference, rows_per_range)
        else:
            range_count = (new.entry.rows + old.entry.rows) // rows_per_range + 1
            selected = self._selected(new, old, self.encoder, every_row, range_count)
        for number in range(selected[0].range_count):
            new_rows, old_rows = (rows.of_range(number) for rows in selected)
            yield from self._compare(new_rows, old_rows, new.entry.newest_snapshot, old.entry.newest_snapshot)

    def _codes_of_applied(self, new: ParentDate) -> U64Array:
        """The codes of keys whose rows have an applied snapshot id. All other rows are as they were in the parent."""
        codes = [EMPTY_U64]
        for file in new.files:
            for batch in self.reader.batches(new.uri(file), with_values=False):
                is_applied = np.isin(batch.update_ids, self.applied)
                codes.append(self.encoder.key_codes(batch.key_columns)[is_applied])
        return np.unique(np.concatenate(codes))

    def _difference(self, new: ParentDate, old: ParentDate) -> tuple[RowEncoder, KeyVersions] | None:
        """Return how the rows of the newest snapshots differ, by key; None if the stored sketches do not tell.

        Their rows must be in files without survivors, because survivors are read as whole files.
        """
        sketches = []
        for rows in (old, new):
            base_id, sketch = rows.entry.max_update_id, stored_base(rows, self.encoder)
            is_mixed = any(file.min_update_id < base_id == file.max_update_id for file in rows.files)
            if sketch is None or is_mixed or rows.entry.newest_snapshot != base_id:
                return None
            sketches.append(sketch)
        encoder = sketches[0].encoder
        versions = peel_chain(sketches) if encoder == sketches[1].encoder else None
        return (encoder, versions) if isinstance(versions, KeyVersions) else None

    def _of_difference(
        self, new: ParentDate, old: ParentDate, encoder: RowEncoder, versions: KeyVersions, rows_per_range: int
    ) -> tuple[RangedRows, RangedRows]:
        """Return all rows of both generations that may differ: rows of the newest snapshots, and all survivors."""
        survivors = sum(rows.files[number].rows for rows in (new, old) for number in rows.survivor_files)
        range_count = (2 * len(versions.codes) + survivors) // rows_per_range + 1
        if not encoder.is_packed:
            found = [versions.codes]
            found += [self.source(rows, encoder).codes(every_row, rows.survivor_files) for rows in (new, old)]
            return self._selected(new, old, encoder, with_codes(np.unique(np.concatenate(found))), range_count)
        selected = RangedRows(range_count), RangedRows(range_count)
        for ranged_rows, link, rows in zip(selected, (1, 0), (new, old), strict=True):
            source = self.source(rows, encoder)
            ranged_rows.add(source.rows_of_words(versions.words_of(link), rows.entry.max_update_id))
            source.select_into(ranged_rows, every_row, file_numbers=rows.survivor_files)
        return selected

    def _selected(
        self, new: ParentDate, old: ParentDate, encoder: RowEncoder, selector: RowSelector, range_count: int
    ) -> tuple[RangedRows, RangedRows]:
        selected = RangedRows(range_count), RangedRows(range_count)
        for ranged_rows, rows in zip(selected, (new, old), strict=True):
            self.source(rows, encoder).select_into(ranged_rows, selector)
        return selected

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
