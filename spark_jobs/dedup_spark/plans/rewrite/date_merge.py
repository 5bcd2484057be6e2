"""Finds what a date's only delivery changes: which keys differ by the sketches, and then by the rows of these keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference
from dedup_clone.contract.table import TableContract
from dedup_spark.arrays import I64Array, Indices
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
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy, RewriteTask
from dedup_spark.plans.rewrite.row_pairs import RowPairs, pair_rows
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Sketch

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
