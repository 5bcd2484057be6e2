"""Selects the rows to compare from all inputs, and checks that their hashes explain how the fingerprints differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedup_spark.arrays import Indices
from dedup_spark.comparison.bucket_ranges import BucketRange
from dedup_spark.comparison.bucket_selection import SKIPPED, BucketSelection, Hashes
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.comparison.spilled_hashes import PARTITIONS, ChangedRowsCounter, PartitionedHashes
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs

# A Spark task that counts changed rows has about this many hashes of one input in memory.
_HASHES_AT_A_TIME = 4 << 20


@dataclass(frozen=True)
class DifferingRows:
    """Rows of one range of buckets that have to be compared. `others`: source number and rows of each other input.

    `unexplained`: the buckets whose rows are left out, because the selected rows do not explain how the fingerprints
    differ (see `BucketSelection.unexplained`).
    """

    newest: SelectedRows
    others: list[tuple[int, SelectedRows]]
    unexplained: Indices


class SelectedInputs:
    """Reads all inputs once, and then returns the rows to compare, range by range."""

    def __init__(self, inputs: ComparisonInputs, selection: BucketSelection, ranges: Sequence[BucketRange]) -> None:
        self.inputs, self._selection, self._ranges = inputs, selection, ranges
        self._newest = RangedRows(ranges, selection.bits)
        partitions = _partition_count(selection) if inputs.parts else PARTITIONS
        self._newest_hashes = inputs.newest.select_and_hash(selection.select_rows, self._newest, partitions=partitions)
        self._others: list[tuple[int, RangedRows]] = []
        self._parent_hashes: Sequence[PartitionedHashes] = []
        if inputs.parent:
            parent = RangedRows(ranges, selection.bits)
            # Survivors are among these rows. Their values are read too, so that survivors need not be read again.
            self._parent_hashes = inputs.parent.select_and_hash(
                selection.select_rows, parent, inputs.base_id, with_values=True, partitions=partitions
            )
            self._others.append((PARENT_SOURCE, parent))
        for source, delivery in inputs.older:
            rows = RangedRows(ranges, selection.bits)
            delivery.select_and_hash(selection.select_compared, rows)
            self._others.append((source, rows))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only what a Spark task needs to compare a range."""
        return {**self.__dict__, "inputs": replace(self.inputs, base_fingerprints=None, parts=None)}

    def of_range(self, number: int) -> DifferingRows:
        """Return the rows to compare in the range of this number."""
        newest = self._newest.of_range(number)
        others = [(source, rows.of_range(number)) for source, rows in self._others]
        selection = self._selection.within(self._ranges[number])
        unexplained = _unexplained(self.inputs, selection, newest, others)
        if len(unexplained):
            select_remaining = selection.with_kind(SKIPPED, unexplained).rows_not_skipped
            newest = newest.take(select_remaining(newest.first_hashes))
            others = [(source, rows.take(select_remaining(rows.first_hashes))) for source, rows in others]
        return DifferingRows(newest, others, unexplained)

    def count_changed(self, excluded: Indices) -> int:
        """Count the changed rows among those whose keys need no comparison, except in the buckets `excluded`."""
        select_remaining = self._selection.with_kind(SKIPPED, excluded).rows_not_skipped if len(excluded) else None
        counter = ChangedRowsCounter(self._parent_hashes, self._newest_hashes, select_remaining)
        parts = self.inputs.parts
        return (
            sum(parts.map(counter, range(counter.partition_count), "count changed rows")) if parts else counter.total()
        )


def _partition_count(selection: BucketSelection) -> int:
    """Return how many partitions make the hashes of each fit into a task's memory, even if all rows are hashed."""
    return max([PARTITIONS, *(pair.newest.rows // _HASHES_AT_A_TIME for pair in selection.pairs)])


def _unexplained(
    inputs: ComparisonInputs,
    selection: BucketSelection,
    newest: SelectedRows,
    others: list[tuple[int, SelectedRows]],
) -> Indices:
    """The buckets in which the rows to compare do not explain how the fingerprints differ."""
    other_hashes = []
    for source, rows in others if selection.pairs else []:
        indices = selection.narrowed_rows(rows.first_hashes)
        if source == PARENT_SOURCE:  # the parent's fingerprints are only of its base, the rows with `base_id`
            indices = indices[rows.update_ids[indices] == inputs.base_id]
        other_hashes.append(_hashes(inputs, rows, indices))
    return selection.unexplained(_hashes(inputs, newest, selection.narrowed_rows(newest.first_hashes)), other_hashes)


def _hashes(inputs: ComparisonInputs, rows: SelectedRows, indices: Indices) -> Hashes:
    """First and second hashes of the keys of the rows at these indices."""
    return inputs.hashers.keys.both([column.combine_chunks() for column in take_rows(rows.key_columns, indices)])
