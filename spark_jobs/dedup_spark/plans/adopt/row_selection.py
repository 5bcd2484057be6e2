"""Selects the rows of all inputs that have to be compared, and checks the selection against the fingerprints."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_spark.arrays import Indices
from dedup_spark.comparison.bucket_selection import SKIPPED, BucketSelection, Hashes
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.comparison.spilled_hashes import SpillableHashes, count_changed_rows
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs
from dedup_spark.plans.dataframe.helper_columns import PARENT_SOURCE


@dataclass(frozen=True)
class DifferingRows:
    """Rows that have to be compared: of the newest delivery, and of the other inputs with their source numbers.

    `changed` rows need no comparison and have other values, where values are known. Buckets that the selection does not
    explain are `left` out.
    """

    newest: SelectedRows
    others: list[tuple[int, SelectedRows]]
    changed: int
    left: Indices


def select_differing_rows(inputs: ComparisonInputs, selection: BucketSelection) -> DifferingRows:
    """Return the rows to compare."""
    newest, new_hashes = inputs.newest.select_and_hash(selection.select_rows)
    others: list[tuple[int, SelectedRows]] = []
    hashes: list[SpillableHashes] = []
    if inputs.parent:
        # Survivors are among these rows: with their values at hand the file need not be read once more for them.
        parent, hashes = inputs.parent.select_and_hash(selection.select_rows, inputs.base_id, with_values=True)
        others.append((PARENT_SOURCE, parent))
    others += [(source, side.select(selection.select_compared)) for source, side in inputs.older]
    left = _unexplained(inputs, selection, newest, others)
    rest = selection.with_kind(SKIPPED, left).selected_rows if len(left) else None
    if rest:
        newest = newest.take(rest(newest.first_hashes))
        others = [(source, rows.take(rest(rows.first_hashes))) for source, rows in others]
    changed = count_changed_rows(hashes, new_hashes, rest) if inputs.parent else 0
    return DifferingRows(newest, others, changed, left)


def _unexplained(
    inputs: ComparisonInputs,
    selection: BucketSelection,
    newest: SelectedRows,
    others: list[tuple[int, SelectedRows]],
) -> Indices:
    of_others = []
    for source, rows in others if selection.pairs else []:
        indices = selection.one_key_rows(rows.first_hashes)
        if source == PARENT_SOURCE:  # of which fingerprints hold the base alone
            indices = indices[rows.update_ids[indices] == inputs.base_id]
        of_others.append(_hashes(inputs, rows, indices))
    return selection.unexplained(_hashes(inputs, newest, selection.one_key_rows(newest.first_hashes)), of_others)


def _hashes(inputs: ComparisonInputs, rows: SelectedRows, indices: Indices) -> Hashes:
    return inputs.hashing.keys.both([column.combine_chunks() for column in take_rows(rows.key_columns, indices)])
