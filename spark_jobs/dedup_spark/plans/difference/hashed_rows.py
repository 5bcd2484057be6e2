"""Counts what the newest delivery changes by the hashes of its rows, if rows do not fit into the words of a sketch.

The rows of this delivery win, and the date has its files, so their hashes are enough to tell new from changed rows. Of
its files only a few rows are read, as examples. The parent's survivors with new keys are read, because these rows lose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dedup_spark.arrays import U64Array
from dedup_spark.comparison.keys import ABSENT, with_codes
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, Link
from dedup_spark.plans.difference.diff_result import DiffResult, add_examples, rows_by_file
from dedup_spark.sketch.chain import KeyVersions
from dedup_spark.sketch.sketch import Difference, group_equal

# So many rows are read as examples: among them are most likely a few new and a few changed ones.
_SAMPLE_ROWS = 50


def count_hashed(
    inputs: ComparisonInputs, chain: Sequence[Link], steps: Sequence[Difference], diff: DiffResult
) -> U64Array:
    """Add to `diff` what the newest delivery changes, and return the codes, sorted, of the keys that it lacks.

    `chain`: the links in ascending precedence, the newest delivery last, each key once in each. `steps`: their
    differences, of hashed rows. The policy is IN_ORDER.
    """
    versions = KeyVersions.of_steps(inputs.encoder, steps)
    delivered = versions.rows[-1]
    if inputs.parent:  # otherwise all its keys are new, and are counted already
        base = versions.rows[chain.index(inputs.parent)]
        is_new = (delivered != ABSENT) & (base == ABSENT)
        is_changed = (delivered != ABSENT) & ~is_new & (versions.words[1, delivered] != versions.words[1, base])
        new_codes, changed_codes = np.unique(versions.codes[is_new]), np.unique(versions.codes[is_changed])
        diff.new_keys += int(is_new.sum())
        diff.changed += int(is_changed.sum())
        survivors = select_survivors(inputs, inputs.parent, new_codes)
        returned = _replace_survivors(inputs.parent, survivors, versions.words[:, delivered[is_new]], diff)
        _add_examples(inputs.newest, np.setdiff1d(new_codes, returned), changed_codes, diff)
    return np.unique(versions.codes[delivered == ABSENT])


def select_survivors(inputs: ComparisonInputs, parent: Link, codes: U64Array) -> SelectedRows:
    """The parent's survivors whose keys have one of these codes, which are sorted."""
    files = inputs.task.parent.survivor_files if inputs.task.parent and len(codes) else []
    rows = parent.reader.select(with_codes(codes), file_numbers=files)
    return rows.take(np.flatnonzero(rows.update_ids != parent.update_id))


def _replace_survivors(parent: Link, survivors: SelectedRows, delivered: U64Array, diff: DiffResult) -> U64Array:
    """Remove the survivors whose keys are among those of the delivered rows, given by their words.

    Their keys are not new, and their rows are changed if the values differ. Return the codes of these keys.
    """
    complete = parent.reader.with_values(survivors)
    assert complete is not None
    assert complete.value_columns is not None
    words = parent.reader.words(complete.key_columns, complete.value_columns)
    groups, _ = group_equal(parent.reader.encoder.key_words(np.concatenate([delivered, words], axis=1)))
    row_of_key = np.full(len(groups), ABSENT, np.intp)
    count = delivered.shape[1]
    row_of_key[groups[:count]] = np.arange(count)
    rows = row_of_key[groups[count:]]
    returned = np.flatnonzero(rows != ABSENT)
    diff.new_keys -= len(returned)
    changed = returned[words[1, returned] != delivered[1, rows[returned]]]
    diff.changed += len(changed)
    add_examples(diff.changed_examples, survivors, changed)
    for file, of_file in rows_by_file(survivors, returned):
        diff.removed[file].append(survivors.row_numbers[of_file])
    return survivors.codes[returned]


def _add_examples(newest: Link, new_codes: U64Array, changed_codes: U64Array, diff: DiffResult) -> None:
    """Read some rows whose keys have one of these codes, which are sorted."""
    codes = np.union1d(new_codes, changed_codes)
    if len(codes):
        rows = newest.reader.first_rows(with_codes(codes), min(len(codes), _SAMPLE_ROWS))
        is_new = np.isin(rows.codes, new_codes)
        add_examples(diff.new_examples, rows, np.flatnonzero(is_new))
        add_examples(diff.changed_examples, rows, np.flatnonzero(~is_new))
