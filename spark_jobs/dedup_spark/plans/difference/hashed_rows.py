"""Counts what the newest delivery changes by the hashes of its rows, if rows do not fit into the words of a sketch.

The rows of this delivery win, and the date has its files, so their hashes are enough to tell new from changed rows. Of
its files only a few rows are read, as examples. The parent's survivors with new keys are read, because these rows lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dedup_clone.contract.manifest import Difference
from dedup_spark.arrays import ABSENT, Indices, U64Array
from dedup_spark.comparison.keys import with_codes
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, Link
from dedup_spark.plans.difference.diff_result import DiffResult, rows_by_file
from dedup_spark.sketch.chain import KeyVersions
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import group_equal

# So many rows are read as examples: among them are most likely a few new and a few changed ones.
_SAMPLE_ROWS = 50


@dataclass(frozen=True)
class MissingKeys:
    """Keys that the newest delivery lacks, by the words of a row of each.

    Another key may have the same code, and this delivery may have its row. So codes are not enough to tell which rows
    of files have these keys.
    """

    encoder: RowEncoder
    words: U64Array

    def codes(self) -> U64Array:
        """The codes of the keys, sorted."""
        return np.unique(self.encoder.codes_of(self.words))

    def rows_of(self, rows: SelectedRows) -> SelectedRows:
        """Those of these rows that have one of the keys."""
        return rows.take(np.flatnonzero(_align(self.encoder, rows, self.words) != ABSENT))


def count_hashed(
    inputs: ComparisonInputs, chain: Sequence[Link], versions: KeyVersions, diff: DiffResult
) -> MissingKeys:
    """Add to `diff` what the newest delivery changes, and return the keys that it lacks.

    `chain`: the links in ascending precedence, the newest delivery last, each key once in each. `versions`: of the
    chain, of hashed rows. The policy is IN_ORDER.
    """
    delivered = versions.rows[-1]
    if inputs.parent:  # otherwise all its keys are new, and are counted already
        base = versions.rows[chain.index(inputs.parent)]
        is_new = (delivered != ABSENT) & (base == ABSENT)
        is_changed = (delivered != ABSENT) & ~is_new & (versions.words[1, delivered] != versions.words[1, base])
        new_codes, changed_codes = np.unique(versions.codes[is_new]), np.unique(versions.codes[is_changed])
        diff.new_keys += int(is_new.sum())
        diff.changed += int(is_changed.sum())
        survivors = select_survivors(inputs, inputs.parent, new_codes)
        returned = _replace_survivors(inputs.encoder, survivors, versions.words[:, delivered[is_new]], diff)
        _add_examples(inputs.newest, np.setdiff1d(new_codes, returned), changed_codes, diff)
    # Of a missing key some other link has a row.
    missing = versions.rows[:, delivered == ABSENT].max(axis=0)
    return MissingKeys(inputs.encoder, versions.words[:, missing])


def select_survivors(inputs: ComparisonInputs, parent: Link, codes: U64Array) -> SelectedRows:
    """The parent's survivors whose keys have one of these codes, which are sorted."""
    files = inputs.task.parent.survivor_files if inputs.task.parent and len(codes) else []
    rows = parent.reader.select(with_codes(codes), file_numbers=files)
    return rows.take(np.flatnonzero(rows.update_ids != parent.update_id))


def _replace_survivors(encoder: RowEncoder, survivors: SelectedRows, delivered: U64Array, diff: DiffResult) -> U64Array:
    """Remove the survivors whose keys are among those of the delivered rows, given by their words.

    Their keys are not new, and their rows are changed if the values differ. Return the codes of these keys.
    """
    rows = _align(encoder, survivors, delivered)
    returned = np.flatnonzero(rows != ABSENT)
    diff.new_keys -= len(returned)
    changed = returned[survivors.value_hashes[returned] != delivered[1, rows[returned]]]
    diff.changed += len(changed)
    diff.add_examples(Difference.CHANGED, survivors, changed)
    for file, of_file in rows_by_file(survivors, returned):
        diff.removed[file].append(survivors.row_numbers[of_file])
    return survivors.codes[returned]


def _align(encoder: RowEncoder, rows: SelectedRows, words: U64Array) -> Indices:
    """For each row the index of that row, given by its words, that has the same key; ABSENT if there is none."""
    keys = [column.combine_chunks() for column in rows.key_columns]
    own = encoder.hashed_words(*encoder.key_hasher.both(keys), rows.value_hashes)
    groups, _ = group_equal(encoder.key_words(np.concatenate([words, own], axis=1)))
    count = words.shape[1]
    row_of_key = np.full(len(groups), ABSENT, np.intp)
    row_of_key[groups[:count]] = np.arange(count)
    return row_of_key[groups[count:]]


def _add_examples(newest: Link, new_codes: U64Array, changed_codes: U64Array, diff: DiffResult) -> None:
    """Read some rows whose keys have one of these codes, which are sorted."""
    codes = np.union1d(new_codes, changed_codes)
    if len(codes):
        rows = newest.reader.first_rows(with_codes(codes), min(len(codes), _SAMPLE_ROWS))
        is_new = np.isin(rows.codes, new_codes)
        diff.add_examples(Difference.NEW, rows, np.flatnonzero(is_new))
        diff.add_examples(Difference.CHANGED, rows, np.flatnonzero(~is_new))
