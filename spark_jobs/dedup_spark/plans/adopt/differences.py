"""Finds what a date's newest delivery changes: survivors, new keys, changed values and duplicate keys.

The parent's rows of the date are its base (the rows with the date's highest update_id) and its survivors, whose keys
the base lacks. If the newest delivery, the base and the older deliveries have the same fingerprint in a bucket, they
have the same keys in it: then all survivors in the bucket remain survivors, and no row of the base becomes one. In all
other buckets the keys themselves are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE
from dedup_spark.arrays import EMPTY_U64, NO_INDICES, BoolArray, Indices, U64Array
from dedup_spark.comparison.bucket_ranges import split_buckets
from dedup_spark.comparison.bucket_selection import (
    ALL_KEYS,
    SKIPPED,
    BucketSelection,
    select_all_keys,
    select_differing_keys,
)
from dedup_spark.comparison.changed_rows import find_changed_rows
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates, find_duplicates, resolve_duplicates, with_hashes
from dedup_spark.comparison.key_comparison import diff_keys, indices_of
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.fingerprints.buckets import BucketFingerprints
from dedup_spark.fingerprints.sub_buckets import SubBuckets, SubBucketSums, sub_bucket_bits
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs, DeliveredFingerprints
from dedup_spark.plans.adopt.diff_result import DiffResult
from dedup_spark.plans.adopt.row_selection import SelectedInputs
from dedup_spark.plans.adopt.surviving_rows import find_survivors


@dataclass(frozen=True)
class Limits:
    """Limits the memory of one date: how many rows are compared at a time, and how many hashes are sorted at a time."""

    rows: int
    hashes: int


# A row takes about 100 bytes in memory, a hash 8.
DEFAULT_LIMITS = Limits(rows=2 << 20, hashes=32 << 20)
# To compare this share of all rows takes about as long as to read the keys of all rows once more.
_EXTRA_PASS_SHARE = 0.125


def find_differences(
    inputs: ComparisonInputs, delivered: DeliveredFingerprints, *, exact: bool, limits: Limits
) -> DiffResult:
    """Compare the inputs of a date.

    `delivered`: the fingerprints of the deliveries. Those of the newest become the result's and are changed; all others
    may lose their sums of values. `exact`: compare all keys themselves, whatever the fingerprints say. Raises
    TooManyDuplicates.
    """
    newest, older, base = delivered.newest, delivered.older, inputs.base_fingerprints
    bits = min(inputs.bits, base.bits) if base else inputs.bits
    coarsened = [fingerprints.coarsened(bits) for fingerprints in (newest, *([base] if base else []), *older)]
    if exact or len(coarsened) == 1:  # with only the newest delivery there is nothing to compare
        selection = select_all_keys(np.full(1 << bits, exact and len(coarsened) > 1), bits)
    else:
        selection = select_differing_keys(coarsened[0], coarsened[1:], has_base=base is not None)
    is_compared = np.asarray(selection.kinds != SKIPPED)
    compares_values = base is not None and coarsened[0].values_differ(coarsened[1]) is not None
    for fingerprints in coarsened[1:]:
        fingerprints.value_sums = None  # they have been compared, and of a large date they take 32 MB
    diff = DiffResult(newest, len(is_compared), int(is_compared.sum()), changed=0 if compares_values else None)
    if base is None:
        _find_duplicates(inputs, coarsened[0], limits, diff)
        diff.new_keys = newest.rows - diff.surplus_rows
    row_counts = np.full(1 << bits, inputs.survivor_rows / (1 << bits), dtype=np.float32)
    for fingerprints in coarsened:
        row_counts += fingerprints.counts
    if _is_parent_small(inputs, selection, row_counts, limits):
        _find_duplicates(inputs, coarsened[0], limits, diff)
        _compare_with_small_parent(inputs, coarsened[0], is_compared, diff)
    else:
        selection = _narrowed(inputs, selection, row_counts, limits)
        unexplained = _compare_ranges(inputs, selection, row_counts, limits, diff)
        if len(unexplained):
            is_unexplained = np.zeros_like(is_compared)
            is_unexplained[unexplained] = True
            _compare_ranges(inputs, select_all_keys(is_unexplained, bits), row_counts, limits, diff)
        if base is None:
            _count_older_surplus(inputs, selection.with_kind(ALL_KEYS, unexplained), diff)
    for surplus in diff.surplus:
        newest.remove(*inputs.newest.key_hashes(surplus), surplus.value_hashes)
    for survivors in diff.same_id_survivors:
        newest.add(*inputs.newest.key_hashes(survivors), survivors.value_hashes)
    return diff


def _find_duplicates(inputs: ComparisonInputs, newest: BucketFingerprints, limits: Limits, diff: DiffResult) -> None:
    """Find the duplicate keys of the newest delivery, and add its surplus rows to `diff`."""
    for resolved in find_duplicates(inputs.newest, inputs.columns, newest.counts, newest.bits, limits.hashes):
        diff.add_duplicates(resolved)


def _count_older_surplus(inputs: ComparisonInputs, compared: BucketSelection, diff: DiffResult) -> None:
    """Count the surplus rows of older deliveries whose keys were not compared. `compared`: which keys were compared.

    Of a key that was not compared, each older delivery has as many rows as the newest, and so as many surplus rows.
    """
    surplus_hashes = (surplus.first_hashes for surplus in diff.surplus)
    count = sum(len(hashes) - len(compared.select_rows(hashes).selected) for hashes in surplus_hashes)
    for source, _ in inputs.older:
        diff.older_surplus_rows[source] += count


def _is_parent_small(
    inputs: ComparisonInputs, selection: BucketSelection, row_counts: npt.NDArray[np.float32], limits: Limits
) -> bool:
    """Whether all rows of the parent fit into one comparison, and the expected rows of all inputs to compare do not."""
    # `_compare_with_small_parent` takes no older deliveries, and looks delivered rows up by hash. If `exact` was
    # asked for, there are no pairs, and all keys have to be compared themselves.
    if inputs.base_fingerprints is None or inputs.older or not selection.pairs:
        return False
    differing = float(selection.expected_rows(row_counts).sum())
    return differing > limits.rows >= inputs.base_fingerprints.rows + inputs.survivor_rows


def _narrowed(
    inputs: ComparisonInputs, selection: BucketSelection, row_counts: npt.NDArray[np.float32], limits: Limits
) -> BucketSelection:
    """Return the selection, narrowed to sub-buckets if comparing whole buckets takes longer than one more pass."""
    if not selection.pairs:
        return selection
    most_rows = max(limits.rows, _EXTRA_PASS_SHARE * float(row_counts.sum()))
    if float(selection.expected_rows(row_counts).sum()) <= most_rows:
        return selection
    others: list[tuple[KeySource, int | None]] = [(inputs.parent, inputs.base_id)] if inputs.parent else []
    others += [(delivery, None) for _, delivery in inputs.older]
    newest_sums = SubBucketSums(sub_bucket_bits(selection.bits, has_several_pairs=len(others) > 1))
    inputs.newest.sum_sub_buckets(newest_sums)
    return selection.narrowed(reduce(or_, _differing(newest_sums, others)))


def _differing(newest_sums: SubBucketSums, others: Sequence[tuple[KeySource, int | None]]) -> Iterator[SubBuckets]:
    """Yield for each of `others` the sub-buckets in which its keys are not those of the newest delivery.

    `newest_sums`: the sums of the newest delivery, which this function changes. `others`: the inputs except the newest
    delivery, and for each the update_id of the rows to count; None to count all its rows.
    """
    for number, (other, only_id) in enumerate(others, start=1):
        sums = newest_sums if number == len(others) else newest_sums.copy()
        other.sum_sub_buckets(sums, only_id, remove=True)
        yield sums.differing()


def _compare_with_small_parent(
    inputs: ComparisonInputs, newest: BucketFingerprints, is_compared: BoolArray, diff: DiffResult
) -> None:
    """Compare all rows of the parent in the compared buckets with the delivered rows of the same first hashes."""
    assert inputs.parent
    parent = inputs.parent.select(select_all_keys(is_compared, newest.bits).select_rows, with_values=True)
    shared = diff.without_surplus(inputs.newest.select(with_hashes(np.unique(parent.first_hashes))))
    # A bucket with a duplicate key differs, so `newest.counts` of the compared buckets include all surplus rows.
    diff.new_keys += int(newest.counts[is_compared].sum()) - diff.surplus_rows - len(shared)
    _compare_selected(inputs, shared, [(PARENT_SOURCE, parent)], diff, find_duplicates_of_newest=False)


def _compare_ranges(
    inputs: ComparisonInputs,
    selection: BucketSelection,
    row_counts: npt.NDArray[np.float32],
    limits: Limits,
    diff: DiffResult,
) -> Indices:
    """Compare the selected rows range by range. Return the unexplained buckets, which were left out.

    A bucket is unexplained if the selected rows do not explain how its fingerprints differ, so all its rows are needed.
    `row_counts`: about how many rows all inputs have in each bucket.
    """
    # With older deliveries the sums and flags take more memory besides the rows. Half as many rows at a time keep the
    # worker of a large date near 600 MiB.
    ranges = split_buckets(selection.expected_rows(row_counts), limits.rows // 2 if inputs.older else limits.rows)
    if not ranges:
        return NO_INDICES
    selected, unexplained = SelectedInputs(inputs, selection, ranges), NO_INDICES
    compare = _RangeComparison(selected, with_values=diff.changed is not None)
    numbers, parts = range(len(ranges)), inputs.parts
    for outcome in parts.map(compare, numbers, "compare keys") if parts else map(compare, numbers):
        if isinstance(outcome, TooManyDuplicates):
            raise outcome
        found, of_range = outcome
        diff.add(found)
        unexplained = np.concatenate([unexplained, of_range])
    if diff.changed is not None:
        diff.changed += selected.count_changed(unexplained)
    return unexplained


@dataclass(frozen=True)
class _RangeComparison:
    """Compares one range. Returns a DiffResult without fingerprints, and the unexplained buckets of the range.

    TooManyDuplicates is returned, not raised, because Spark would repeat a task that raises it.
    """

    selected: SelectedInputs
    with_values: bool

    def __call__(self, number: int) -> tuple[DiffResult, Indices] | TooManyDuplicates:
        inputs, rows = self.selected.inputs, self.selected.of_range(number)
        diff = DiffResult(BucketFingerprints.empty(0), 0, 0, changed=0 if self.with_values else None)
        has_parent = inputs.parent is not None
        try:
            _compare_selected(inputs, rows.newest, rows.others, diff, find_duplicates_of_newest=has_parent)
        except TooManyDuplicates as error:
            return error
        return diff, rows.unexplained


def _compare_selected(
    inputs: ComparisonInputs,
    newest: SelectedRows,
    others: Sequence[tuple[int, SelectedRows]],
    diff: DiffResult,
    *,
    find_duplicates_of_newest: bool,
) -> None:
    """Compare the selected rows. `others`: the parent's rows if there is a parent, then those of older deliveries.

    `find_duplicates_of_newest`: False if the duplicate keys of the newest delivery have been found already.
    """
    packed = pack_keys(inputs.columns, [newest.key_columns, *(rows.key_columns for _, rows in others)])
    keys, *other_keys = packed.lists
    diff.has_ranks |= packed.has_ranks
    compared = diff_keys(keys, np.concatenate([EMPTY_U64, *other_keys]), EXAMPLES_PER_DATE)
    if find_duplicates_of_newest and len(compared.surplus):
        resolved = resolve_duplicates(inputs.newest, newest, keys, np.unique(compared.surplus))
        diff.add_duplicates(resolved)
        newest, keys = resolved.retained, resolved.keys
    if diff.changed is not None:
        missing = diff_keys(keys, other_keys[0], 0).missing if inputs.older else compared.missing
        count, indices = find_changed_rows(newest, others[0][1], other_keys[0], missing, EXAMPLES_PER_DATE)
        diff.changed += count
        if len(indices) and len(diff.changed_examples) < EXAMPLES_PER_DATE:
            diff.changed_examples.append(take_rows(others[0][1].key_columns, indices))
    if inputs.older:
        _count_new(inputs, [newest, *(rows for _, rows in others)], [keys, *other_keys], diff)
    else:
        diff.new_keys += compared.added_count
        _add_new_examples(newest, keys, compared.added_sample, diff)
    find_survivors(inputs, others, other_keys, compared.missing, diff)


def _count_new(
    inputs: ComparisonInputs, selected: Sequence[SelectedRows], keys: Sequence[U64Array], diff: DiffResult
) -> None:
    """Count the keys of all deliveries that the parent lacks.

    Without a parent, the newest delivery's keys have been counted before, so only other keys are counted.
    """
    first_older = 2 if inputs.parent else 1
    delivered = [0, *range(first_older, len(keys))]
    excluded_keys = keys[1] if inputs.parent else keys[0]
    counted_keys = np.concatenate(
        [keys[number] for number in (delivered if inputs.parent else delivered[1:])] or [EMPTY_U64]
    )
    compared = diff_keys(counted_keys, excluded_keys, EXAMPLES_PER_DATE)
    diff.new_keys += compared.added_count
    for number in delivered:
        _add_new_examples(selected[number], keys[number], compared.added_sample, diff)


def _add_new_examples(rows: SelectedRows, keys: U64Array, new_keys: U64Array, diff: DiffResult) -> None:
    indices = indices_of(keys, new_keys)[:EXAMPLES_PER_DATE]
    if len(indices) and len(diff.new_examples) < EXAMPLES_PER_DATE:
        diff.new_examples.append(take_rows(rows.key_columns, indices))
