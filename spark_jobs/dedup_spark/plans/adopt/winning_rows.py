"""Finds the row that wins for each key, and records what that changes: new keys, changed rows and survivors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE
from dedup_spark.arrays import BoolArray, Indices, U64Array
from dedup_spark.comparison.aligned_rows import ABSENT, align
from dedup_spark.comparison.duplicate_keys import row_words
from dedup_spark.comparison.selected_rows import Columns, SelectedRows, take_rows
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs
from dedup_spark.plans.adopt.diff_result import DecodedSurvivors, DiffResult

_LOWEST_ID = np.iinfo(np.int64).min


def find_winners(inputs: ComparisonInputs, rows: Sequence[tuple[int, SelectedRows]], diff: DiffResult) -> None:
    """Add to `diff` what the rows of some keys tell: all rows with these keys, each key once in each source.

    `rows`: by source number, ascending: those of the parent first if there is a parent, those of the newest delivery
    last. The row with the highest update_id wins; if several rows have it, that of the highest source number. So a row
    of the newest delivery wins always. Without a parent, `diff.new_keys` counts the newest delivery's keys already.
    """
    aligned = align(inputs.columns, [some for _, some in rows])
    key_count = aligned.shape[1]
    winners = np.full(key_count, ABSENT, np.intp)
    ids, hashes = np.full(key_count, _LOWEST_ID), np.zeros(key_count, np.uint64)
    for position, (_, some) in enumerate(rows):
        keys = np.flatnonzero(aligned[position] != ABSENT)
        indices = aligned[position, keys]
        wins = some.update_ids[indices] >= ids[keys]
        keys, indices = keys[wins], indices[wins]
        winners[keys], ids[keys], hashes[keys] = position, some.update_ids[indices], some.value_hashes[indices]
    is_new = aligned[0 if inputs.parent else -1] == ABSENT
    diff.new_keys += int(is_new.sum())
    for position, (source, some) in enumerate(rows):
        won = winners == position
        _add_examples(diff.new_examples, some, aligned[position, won & is_new])
        if source == PARENT_SOURCE:
            _find_changed(some, aligned[position], hashes, won, diff)
            _find_parent_survivors(inputs, some, aligned[position, won], diff)
        elif source != inputs.newest_source:
            _add_survivors(inputs, source, some, aligned[position, won], diff)


def _find_changed(parent: SelectedRows, rows: Indices, hashes: U64Array, won: BoolArray, diff: DiffResult) -> None:
    """Count the parent's rows that lose against other values. `hashes`: by key, the value hash of the winner."""
    lost = np.flatnonzero((rows != ABSENT) & ~won)
    changed = rows[lost[parent.value_hashes[rows[lost]] != hashes[lost]]]
    diff.changed += len(changed)
    _add_examples(diff.changed_examples, parent, changed)


def _find_parent_survivors(inputs: ComparisonInputs, parent: SelectedRows, winners: Indices, diff: DiffResult) -> None:
    """Record which rows of the base become survivors (`surviving`), and which survivors cease to be (`removed`).

    The base is the parent's rows with the update_id `base_id`; the parent's other rows are its survivors. `winners`:
    the indices of the parent's rows that survive. The parent's survivors that are not among them are `removed`.
    """
    is_base = parent.update_ids == inputs.base_id
    _add_survivors(inputs, PARENT_SOURCE, parent, winners[is_base[winners]], diff)
    stays = is_base.copy()
    stays[winners] = True
    removed = np.flatnonzero(~stays)
    for file in np.unique(parent.file_numbers[removed]):
        of_file = removed[parent.file_numbers[removed] == file]
        diff.removed[PARENT_SOURCE, int(file)].append(parent.row_numbers[of_file])


def _add_survivors(
    inputs: ComparisonInputs, source: int, rows: SelectedRows, indices: Indices, diff: DiffResult
) -> None:
    """Add the rows of a source at these indices to the survivors.

    Those that have the newest delivery's update_id are also recorded in `same_id_words`.
    """
    for file in np.unique(rows.file_numbers[indices]):
        of_file = indices[rows.file_numbers[indices] == file]
        diff.surviving[source, int(file)].append(rows.row_numbers[of_file])
        if rows.value_columns is not None:
            keys, values = take_rows(rows.key_columns, of_file), take_rows(rows.value_columns, of_file)
            diff.decoded[source, int(file)].append(DecodedSurvivors(keys, rows.update_ids[of_file], values))
    _add_examples(diff.survivor_examples, rows, indices)
    same_id = indices[rows.update_ids[indices] == inputs.newest_id]
    diff.same_id_words += row_words(inputs.reader(source), rows.take(same_id))


def _add_examples(examples: list[Columns], rows: SelectedRows, indices: Indices) -> None:
    if len(indices) and len(examples) < EXAMPLES_PER_DATE:
        examples.append(take_rows(rows.key_columns, indices[:EXAMPLES_PER_DATE]))
