"""Finds the row that wins for each key of a date, and records what that changes: rows that the date gets, or loses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark.arrays import ABSENT, EMPTY_I64, BoolArray, I64Array, Indices, U64Array
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates, row_words
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.keys import align
from dedup_spark.comparison.row_reader import whole_rows
from dedup_spark.comparison.selected_rows import NO_FILE, Columns, SelectedRows, take_rows
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.date_task import MergePolicy
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, Link

# The most added rows that are kept in memory, beside those that were decoded from a sketch.
MAX_ADDED_ROWS = 1 << 20
# The most surplus rows of a date, of about 100 bytes each, that are kept in memory until its files are written.
MAX_SURPLUS_ROWS = 1 << 20
_LOWEST_ID = np.iinfo(np.int64).min


@dataclass
class DiffResult:
    """What the deliveries of a date change. Rows are grouped by the numbers of their source and file.

    With policy IN_ORDER the date keeps the newest delivery's rows, except surplus rows, and the parent's survivors,
    unless these are deleted (`ComparisonInputs.deletes`). With other policies it keeps the parent's rows. Of these,
    some are removed, and others are added.

    - differing: how many rows differ by the sketches, each step from one delivery to the next counted; None if the
      sketches do not tell, so that all rows were compared.
    - is_decoded: the differing rows were decoded from the sketches, and not read.
    - new_keys: how many keys of the deliveries the parent lacks.
    - changed: how many of the parent's rows get other values.
    - surplus: surplus rows by source number.
    - added_rows: rows that the date gets beside those that it keeps.
    - added: the numbers of more such rows, which are not in memory and have to be read from their files.
    - removed: by file, the numbers of the parent's rows that the date does not keep after all.
    - free_rows: how many more rows of files may be in `added_rows`.
    - example_keys: the key columns of a few rows, by how they differ.
    """

    differing: int | None = 0
    is_decoded: bool = False
    new_keys: int = 0
    changed: int = 0
    surplus: defaultdict[int, list[SelectedRows]] = field(default_factory=lambda: defaultdict(list))
    added_rows: list[pa.Table] = field(default_factory=list)
    added: defaultdict[tuple[int, int], list[I64Array]] = field(default_factory=lambda: defaultdict(list))
    removed: defaultdict[int, list[I64Array]] = field(default_factory=lambda: defaultdict(list))
    free_rows: int = field(default_factory=lambda: MAX_ADDED_ROWS)
    example_keys: defaultdict[Difference, list[Columns]] = field(default_factory=lambda: defaultdict(list))

    def surplus_rows(self, source: int) -> int:
        """How many surplus rows the delivery with this source number has."""
        return sum(map(len, self.surplus[source]))

    def surplus_in(self, source: int, file: int) -> I64Array:
        """Return the row numbers, ascending, of the surplus rows in the source's file of this number."""
        rows = [surplus.row_numbers[surplus.file_numbers == file] for surplus in self.surplus[source]]
        return np.sort(np.concatenate([EMPTY_I64, *rows]))

    def added_in(self, source: int, file: int) -> I64Array:
        """Return the row numbers, ascending, of the added rows to read from the source's file of this number."""
        return np.sort(np.concatenate([EMPTY_I64, *self.added.get((source, file), ())]))

    def removed_in(self, file: int) -> I64Array:
        """Return the row numbers, ascending, of the removed rows of the parent's file of this number."""
        return np.sort(np.concatenate([EMPTY_I64, *self.removed.get(file, ())]))

    def add_surplus(self, source: int, rows: SelectedRows) -> None:
        """Add surplus rows of a delivery. Raises TooManyDuplicates."""
        self.surplus[source].append(rows)
        if self.surplus_rows(source) > MAX_SURPLUS_ROWS:
            raise TooManyDuplicates

    def add_examples(self, kind: Difference, rows: SelectedRows, indices: Indices) -> None:
        """Add the key columns of the first of these rows, if there are not enough examples yet."""
        if len(indices) and len(self.example_keys[kind]) < EXAMPLES_PER_DATE:
            self.example_keys[kind].append(take_rows(rows.key_columns, indices[:EXAMPLES_PER_DATE]))

    def examples(self, table: TableContract, day: date) -> tuple[KeyExample, ...]:
        """Return a few keys of each kind of difference, as text."""
        found = []
        for kind, samples in self.example_keys.items():
            texts = [text for keys in samples for text in key_texts(table, [column.to_pylist() for column in keys])]
            found += [KeyExample(day, kind, text) for text in texts[:EXAMPLES_PER_DATE]]
        return tuple(found)


def find_winners(inputs: ComparisonInputs, rows: Sequence[tuple[Link, SelectedRows]], diff: DiffResult) -> None:
    """Add to `diff` what the rows of some keys tell: all rows with these keys, each key once in each source.

    Survivors with the newest delivery's snapshot id are added to this delivery's sketch.

    `rows`: by link, those of the parent first if there is a parent, those of the newest delivery last. The row with the
    highest update_id wins; if several rows have it, that of the highest source number. With policy BY_VALUE the
    delivered row wins, unless the parent's row has the same values. Without a parent, `diff.new_keys` counts the newest
    delivery's keys already. If `inputs.deletes`, the date gets and keeps no row of a key that the newest delivery
    lacks.
    """
    aligned = align(inputs.encoder.keys, [some for _, some in rows])
    key_count = aligned.shape[1]
    winners = np.full(key_count, ABSENT, np.intp)
    ids, hashes = np.full(key_count, _LOWEST_ID), np.zeros(key_count, np.uint64)
    for position, (_, some) in enumerate(rows):
        keys = np.flatnonzero(aligned[position] != ABSENT)
        indices = aligned[position, keys]
        if inputs.task.policy is MergePolicy.BY_VALUE:
            wins = (winners[keys] == ABSENT) | (some.value_hashes[indices] != hashes[keys])
        else:
            wins = some.update_ids[indices] >= ids[keys]
        keys, indices = keys[wins], indices[wins]
        winners[keys], ids[keys], hashes[keys] = position, some.update_ids[indices], some.value_hashes[indices]
    is_new = aligned[0 if inputs.task.parent else -1] == ABSENT
    diff.new_keys += int(is_new.sum())
    for position, (link, some) in enumerate(rows):
        won, is_kept = winners == position, _is_kept(inputs, link, some)
        winning, is_missing = aligned[position, won], aligned[-1, won] == ABSENT
        diff.add_examples(Difference.NEW, some, aligned[position, won & is_new])
        retained = winning[~is_missing] if inputs.deletes else winning
        _add_rows(inputs, link, some, retained[~is_kept[retained]], diff)
        if inputs.task.policy is MergePolicy.IN_ORDER:
            is_missing &= ~is_kept[winning]  # the parent's survivors have been missing before
        diff.add_examples(Difference.SURVIVOR, some, winning[is_missing])
        if link.source == PARENT_SOURCE:
            _find_changed(some, aligned[position], hashes, won, diff)
            stays = ~is_kept
            stays[retained] = True
            for file, numbers in rows_by_file(some, np.flatnonzero(~stays)):
                diff.removed[file].append(some.row_numbers[numbers])


def _is_kept(inputs: ComparisonInputs, link: Link, rows: SelectedRows) -> BoolArray:
    """For each row of a link whether the date keeps it unless it loses; see `DiffResult`."""
    is_kept: BoolArray = np.full(len(rows), link is inputs.newest)
    if inputs.task.policy is not MergePolicy.IN_ORDER:
        is_kept[:] = link.source == PARENT_SOURCE
    elif link.source == PARENT_SOURCE:
        is_kept = np.asarray(rows.update_ids != link.update_id)
    return is_kept


def _find_changed(parent: SelectedRows, rows: Indices, hashes: U64Array, won: BoolArray, diff: DiffResult) -> None:
    """Count the parent's rows that lose against other values. `hashes`: by key, the value hash of the winner."""
    lost = np.flatnonzero((rows != ABSENT) & ~won)
    changed = rows[lost[parent.value_hashes[rows[lost]] != hashes[lost]]]
    diff.changed += len(changed)
    diff.add_examples(Difference.CHANGED, parent, changed)


def _add_rows(inputs: ComparisonInputs, link: Link, rows: SelectedRows, indices: Indices, diff: DiffResult) -> None:
    """Add the rows of a link at these indices to those that the date gets."""
    in_memory = rows.file_numbers[indices] == NO_FILE
    if rows.value_columns is not None and len(indices) <= diff.free_rows:
        in_memory[:] = True
    some = indices[in_memory]
    if len(some):
        assert rows.value_columns is not None
        diff.free_rows -= len(some)
        keys, values = take_rows(rows.key_columns, some), take_rows(rows.value_columns, some)
        table = link.reader.reader.table
        diff.added_rows.append(whole_rows(table, inputs.task.day, keys, values, rows.update_ids[some]))
    for file, of_file in rows_by_file(rows, indices[~in_memory]):
        diff.added[link.source, file].append(rows.row_numbers[of_file])
    if inputs.task.policy is MergePolicy.IN_ORDER:
        # There are some only if the newest delivery lands a snapshot again.
        same_id = indices[rows.update_ids[indices] == inputs.newest.update_id]
        for words in row_words(link.reader, rows, same_id):
            inputs.newest_sketch.add(words)


def rows_by_file(rows: SelectedRows, indices: Indices) -> Iterator[tuple[int, Indices]]:
    """Yield the number of each file with those `indices` whose rows are in it."""
    for file in np.unique(rows.file_numbers[indices]):
        yield int(file), indices[rows.file_numbers[indices] == file]
