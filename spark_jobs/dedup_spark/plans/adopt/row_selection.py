"""Selects the rows of both inputs that have to be compared, and checks the selection against the fingerprints."""

from __future__ import annotations

from dataclasses import dataclass, field

from dedup_spark.arrays import NO_INDICES, Indices, U64Array
from dedup_spark.comparison.bucket_selection import SKIPPED, BucketSelection
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.comparison.spilled_hashes import count_changed_rows
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs


@dataclass(frozen=True)
class DifferingRows:
    """Rows that have to be compared; `changed` rows need no comparison and have other values, where values are known.

    Buckets that the selection does not explain are `left` out.
    """

    newest: SelectedRows
    parent: SelectedRows
    changed: int = 0
    left: Indices = field(default_factory=lambda: NO_INDICES)


def select_differing_rows(inputs: ComparisonInputs, selection: BucketSelection) -> DifferingRows:
    """Return the rows to compare. Without a parent the newest delivery's rows stand for both inputs."""
    newest, new_hashes = inputs.newest.select_and_hash(selection.select_rows)
    if inputs.parent is None:
        return DifferingRows(newest, newest)
    # Survivors are among these rows: with their values at hand the file need not be read once more for them.
    parent, hashes = inputs.parent.select_and_hash(selection.select_rows, inputs.base_id, with_values=True)
    if not selection.has_one_key_buckets:
        return DifferingRows(newest, parent, count_changed_rows(hashes, new_hashes, None))
    is_base = parent.update_ids == inputs.base_id
    of_newest, of_base = selection.one_key_rows(newest.first_hashes), selection.one_key_rows(parent.first_hashes)
    left = selection.unexplained(_hashes(inputs, newest, of_newest), _hashes(inputs, parent, of_base[is_base[of_base]]))
    if not len(left):
        return DifferingRows(newest, parent, count_changed_rows(hashes, new_hashes, None))
    rest = selection.with_kind(SKIPPED, left)
    newest, parent = (side.take(rest.selected_rows(side.first_hashes)) for side in (newest, parent))
    return DifferingRows(newest, parent, count_changed_rows(hashes, new_hashes, rest.selected_rows), left)


def _hashes(inputs: ComparisonInputs, rows: SelectedRows, indices: Indices) -> tuple[U64Array, U64Array]:
    return inputs.hashing.keys.both([column.combine_chunks() for column in take_rows(rows.key_columns, indices)])
