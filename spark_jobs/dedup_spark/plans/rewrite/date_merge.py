"""Finds what a date's only delivery changes: which keys differ by the sketches, and then by the rows of these keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference
from dedup_clone.contract.table import Column, TableContract
from dedup_spark.arrays import BoolArray, I64Array, Indices
from dedup_spark.comparison.aligned_rows import ABSENT, align
from dedup_spark.comparison.duplicate_keys import (
    ResolvedDuplicates,
    find_duplicates,
    require_few_surplus_rows,
    resolve_duplicates,
    with_codes,
)
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import RowSelector, SelectedRows, every_row, take_rows
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Sketch


class MergePolicy(StrEnum):
    """Which row of a key is retained if both the delivery and the parent have the key.

    IN_ORDER: the delivered row. LATE: the row with the higher update_id; if the ids are equal, the delivered row.
    BY_VALUE: the delivered row if its values differ, otherwise the parent's.
    """

    IN_ORDER = "in order"
    LATE = "late"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class RewriteTask:
    """One date to rewrite. `delivered` is None if no delivery has the date; `parent` is None if the parent lacks it.

    `has_own_ids`: the delivered rows have update_ids of their own, because they come from an existing table; otherwise
    the update_id of all is the delivery's snapshot id. `keeps_files`: the parent's files of which no row is removed are
    copied, and only rows that these files lack are written.
    """

    day: date
    policy: MergePolicy
    delivered: DeliveredDate | None
    has_own_ids: bool
    parent: ParentDate | None
    keeps_files: bool = False

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return (self.delivered,) if self.delivered else ()

    @property
    def bytes(self) -> int:
        """The stored bytes of delivery and parent."""
        return sum(dated.bytes for dated in (*self.deliveries, self.parent) if dated)


# About this many rows are compared at a time.
ROWS_PER_RANGE = 4 << 20
# About this many key codes are sorted at a time, to find duplicate keys.
_CODES_PER_RANGE = 16 << 20

# Ascending row numbers by file number.
RowNumbers = dict[int, I64Array]


@dataclass
class DateMerge:
    """Which rows a rewritten date has: the parent's except `removed`, and those of the delivery in `inserted`.

    Rows are given by their numbers in each file. If `inserted` is None, it stands for all delivered rows except
    `surplus`. `surplus_rows`: how many surplus rows the delivery has, in both cases. `sketch`: of the delivery's rows,
    each key once. `differing`: how many rows differ from the parent's by the sketches; None if all rows were compared.
    `examples`: keys, as text, for each kind of difference.
    """

    sketch: Sketch
    differing: int | None = None
    new_keys: int = 0
    changed: int = 0
    surplus_rows: int = 0
    inserted: RowNumbers | None = field(default_factory=dict)
    surplus: RowNumbers = field(default_factory=dict)
    removed: RowNumbers = field(default_factory=dict)
    examples: dict[Difference, list[str]] = field(default_factory=lambda: {kind: [] for kind in Difference})

    @property
    def changes_nothing(self) -> bool:
        """Whether the delivery adds no key and replaces no row."""
        return not self.new_keys and not self.removed

    def remove_surplus(self, duplicates: list[ResolvedDuplicates]) -> None:
        """Count surplus rows, and remove them from the sketch, in which the next publish needs each key once."""
        for resolved in duplicates:
            self.surplus_rows += len(resolved.surplus)
            self.sketch.remove(resolved.surplus_words)


def merge_date(
    table: TableContract,
    task: RewriteTask,
    newest: KeySource,
    parent: KeySource | None,
    sketch: Sketch,
    stored: Sketch | None,
) -> DateMerge:
    """Compare the delivery `newest` with the parent's rows of the date. `task` must have a delivery.

    `sketch`: of all rows of the delivery; it becomes that of the result. `stored`: see `stored_sketch`; None to compare
    all rows. Raises TooManyDuplicates.
    """
    assert task.delivered
    columns, merge = key_columns(table), DateMerge(sketch)
    if task.parent is None or parent is None:
        return _all_new(newest, merge)
    snapshot_id = task.delivered.delivery.snapshot_id
    step = sketch.minus(stored).peel() if stored else None
    selector: RowSelector = every_row
    expected_rows = sketch.rows + task.parent.entry.rows
    if step is not None:
        codes = np.unique(newest.encoder.codes_of(step.words))
        merge.differing, selector, expected_rows = len(step), with_codes(codes), 2 * len(codes)
    inserted: _UnsortedRowNumbers = defaultdict(list)
    removed: _UnsortedRowNumbers = defaultdict(list)
    duplicates: list[ResolvedDuplicates] = []
    for new_rows, old_rows in _rows_by_range(newest, parent, selector, expected_rows) if expected_rows else ():
        resolved = resolve_duplicates(newest, new_rows)
        if len(resolved.surplus):
            duplicates.append(resolved)
            require_few_surplus_rows(sum(len(some.surplus) for some in duplicates))
            new_rows = resolved.retained
        pairs = pair_rows(columns, new_rows, old_rows, task.policy, snapshot_id)
        merge.new_keys += len(pairs.new)
        merge.changed += len(pairs.changed)
        _add_row_numbers(inserted, new_rows, np.concatenate([pairs.new, pairs.replacing]))
        _add_row_numbers(removed, old_rows, pairs.replaced)
        _add_examples(table, merge.examples, new_rows, old_rows, pairs)
    merge.inserted, merge.removed = _sorted(inserted), _sorted(removed)
    merge.remove_surplus(duplicates)
    return merge


def _rows_by_range(
    newest: KeySource, parent: KeySource, selector: RowSelector, expected_rows: int
) -> Iterator[tuple[SelectedRows, SelectedRows]]:
    """Yield the selected rows of both inputs, range by range. Each input is read only once.

    `expected_rows`: about the number of selected rows.
    """
    range_count = expected_rows // ROWS_PER_RANGE + 1
    delivered_rows, parent_rows = RangedRows(range_count), RangedRows(range_count)
    newest.select_into(delivered_rows, selector)
    parent.select_into(parent_rows, selector)
    for number in range(range_count):
        yield delivered_rows.of_range(number), parent_rows.of_range(number)


def _all_new(newest: KeySource, merge: DateMerge) -> DateMerge:
    """Return the merge of a date that the parent lacks: only duplicate keys have to be found.

    Raises TooManyDuplicates.
    """
    duplicates: list[ResolvedDuplicates] = []
    surplus: _UnsortedRowNumbers = defaultdict(list)
    for resolved in find_duplicates(newest, merge.sketch.rows, _CODES_PER_RANGE):
        duplicates.append(resolved)
        require_few_surplus_rows(sum(len(some.surplus) for some in duplicates))
        _add_row_numbers(surplus, resolved.surplus, np.arange(len(resolved.surplus)))
    merge.surplus = _sorted(surplus)
    merge.remove_surplus(duplicates)
    merge.new_keys = merge.sketch.rows
    merge.inserted = None
    return merge


def stored_sketch(task: RewriteTask, encoder: RowEncoder) -> Sketch | None:
    """Return the parent's stored sketch if rows that it shares with the delivery need no comparison, otherwise None."""
    parent, delivered = task.parent, task.delivered
    if parent is None or delivered is None or task.policy is MergePolicy.IN_ORDER:
        return None
    entry = parent.entry
    if task.policy is MergePolicy.LATE:
        # The sketch is of the parent's rows with the highest update_id, which win whatever their values are.
        if delivered.delivery.snapshot_id == entry.max_update_id:
            return None
        found = parent.stored_sketch(encoder)
        return found.sketch if found and found.update_id == entry.max_update_id else None
    # The sketch is of the date's previous delivery. It serves only if the parent has all rows of that delivery, with
    # the same values, and otherwise only survivors.
    found = parent.stored_sketch(encoder)
    return found.sketch if found and found.sketch.rows == entry.rows - entry.survivors else None


_UnsortedRowNumbers = defaultdict[int, list[I64Array]]


def _add_row_numbers(found: _UnsortedRowNumbers, rows: SelectedRows, indices: Indices) -> None:
    """Add to `found`, by file, the row numbers of the rows at these indices."""
    for file in np.unique(rows.file_numbers[indices]):
        found[int(file)].append(rows.row_numbers[indices[rows.file_numbers[indices] == file]])


def _sorted(found: _UnsortedRowNumbers) -> RowNumbers:
    return {file: np.sort(np.concatenate(numbers)) for file, numbers in found.items()}


def _add_examples(
    table: TableContract,
    examples: dict[Difference, list[str]],
    delivered: SelectedRows,
    parent: SelectedRows,
    pairs: RowPairs,
) -> None:
    for difference, rows, indices in (
        (Difference.NEW, delivered, pairs.new),
        (Difference.CHANGED, parent, pairs.changed),
        (Difference.SURVIVOR, parent, pairs.missing),
    ):
        needed_examples = EXAMPLES_PER_DATE - len(examples[difference])
        if needed_examples > 0 and len(indices):
            keys = take_rows(rows.key_columns, indices[:needed_examples])
            examples[difference] += key_texts(table, [column.to_pylist() for column in keys])


@dataclass(frozen=True)
class RowPairs:
    """Indices of delivered rows (`new`, `replacing`) and of the parent's rows (`replaced`, `changed`, `missing`).

    `new`: rows whose key the parent lacks. `replacing`, `replaced`: at each position, a delivered row and the parent's
    row that it replaces. `changed`: the `replaced` rows whose values differ. `missing`: rows whose key the delivery
    lacks.
    """

    new: Indices
    replacing: Indices
    replaced: Indices
    changed: Indices
    missing: Indices


def pair_rows(
    columns: tuple[Column, ...], delivered: SelectedRows, parent: SelectedRows, policy: MergePolicy, snapshot_id: int
) -> RowPairs:
    """Pair rows by their keys, which each side has at most once.

    `columns`: the key columns. `snapshot_id`: the snapshot id of the delivery, and so the update_id of its rows.
    """
    delivered_rows, parent_rows = align(columns, [delivered, parent])
    is_paired = (delivered_rows != ABSENT) & (parent_rows != ABSENT)
    partner, paired = delivered_rows[is_paired], parent_rows[is_paired]
    differs = delivered.value_hashes[partner] != parent.value_hashes[paired]
    replaces = _replaces(policy, differs, parent.update_ids[paired], snapshot_id)
    return RowPairs(
        new=delivered_rows[parent_rows == ABSENT],
        replacing=partner[replaces],
        replaced=paired[replaces],
        changed=paired[replaces & differs],
        missing=parent_rows[delivered_rows == ABSENT],
    )


def _replaces(policy: MergePolicy, differs: BoolArray, parent_ids: I64Array, snapshot_id: int) -> BoolArray:
    """For each pair whether the delivered row replaces the parent's."""
    if policy is MergePolicy.BY_VALUE:
        return differs
    # If the update_ids are equal, the later delivery wins, which is this one: the parent has only earlier deliveries.
    return np.asarray(parent_ids <= snapshot_id)
