"""Finds the survivors of a date: for each key that the newest delivery lacks, the row that wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE
from dedup_spark.arrays import EMPTY_I64, EMPTY_U64, Indices, U64Array
from dedup_spark.comparison.changed_rows import count_overruled_rows
from dedup_spark.comparison.duplicate_keys import resolve_duplicates, row_words
from dedup_spark.comparison.key_comparison import indices_of, repeated_in
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs
from dedup_spark.plans.adopt.diff_result import DecodedSurvivors, DiffResult


def find_survivors(
    inputs: ComparisonInputs,
    others: Sequence[tuple[int, SelectedRows]],
    other_keys: Sequence[U64Array],
    missing: U64Array,
    diff: DiffResult,
) -> None:
    """Record in `diff` the new survivors, and the parent's survivors that cease to be survivors (`removed`).

    Also add to `diff.changed`, `diff.older_surplus_rows` and `diff.survivor_examples`. For each key of
    `missing` (packed keys, sorted) the row with the highest update_id survives; if several rows have this update_id,
    the row of the source with the highest number. `others`: the source number and the rows of each input except the
    newest delivery. `other_keys`: their packed keys. Raises TooManyDuplicates.
    """
    others, other_keys = _without_duplicates(inputs, others, other_keys, missing, diff)
    missing_rows = [
        (source, rows, keys, indices_of(keys, missing)) for (source, rows), keys in zip(others, other_keys, strict=True)
    ]
    keys = np.concatenate([EMPTY_U64, *(keys[indices] for _, _, keys, indices in missing_rows)])
    ids = np.concatenate([EMPTY_I64, *(rows.update_ids[indices] for _, rows, _, indices in missing_rows)])
    sources = np.concatenate([EMPTY_I64, *(np.full(len(indices), source) for source, _, _, indices in missing_rows)])
    order = np.lexsort((sources, ids, keys))
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = keys[order][1:] != keys[order][:-1]
    wins = np.zeros(len(order), dtype=bool)
    wins[order[is_last]] = True
    hashes = np.concatenate([EMPTY_U64, *(rows.value_hashes[indices] for _, rows, _, indices in missing_rows)])
    diff.changed += count_overruled_rows(order, is_last, sources == PARENT_SOURCE, hashes)
    begin = 0
    for source, rows, _, indices in missing_rows:
        winners = indices[wins[begin : begin + len(indices)]]
        begin += len(indices)
        if source == PARENT_SOURCE:
            _find_parent_survivors(inputs, rows, winners, diff)
        else:
            _add_survivors(inputs, source, rows, winners, diff)


def _without_duplicates(
    inputs: ComparisonInputs,
    others: Sequence[tuple[int, SelectedRows]],
    other_keys: Sequence[U64Array],
    missing: U64Array,
    diff: DiffResult,
) -> tuple[list[tuple[int, SelectedRows]], list[U64Array]]:
    """Count the surplus rows of older deliveries. Return the rows without those surplus rows that have `missing` keys.

    Then each source has at most one row of each missing key. The parent never has surplus rows.
    """
    retained, retained_keys = [], []
    for (source, rows), keys in zip(others, other_keys, strict=True):
        if source != PARENT_SOURCE:
            ordered = np.sort(keys)
            diff.older_surplus_rows[source] += int((ordered[1:] == ordered[:-1]).sum())
            repeated_missing = np.intersect1d(repeated_in(ordered), missing, assume_unique=True)
            if len(repeated_missing):
                resolved = resolve_duplicates(inputs.reader(source), rows, keys, repeated_missing)
                rows, keys = resolved.retained, resolved.keys
        retained.append((source, rows))
        retained_keys.append(keys)
    return retained, retained_keys


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
    if len(indices) and len(diff.survivor_examples) < EXAMPLES_PER_DATE:
        diff.survivor_examples.append(take_rows(rows.key_columns, indices[:EXAMPLES_PER_DATE]))
    same_id = indices[rows.update_ids[indices] == inputs.newest_id]
    diff.same_id_words += row_words(inputs.reader(source), rows.take(same_id))
