"""Finds what a date's only delivery changes: first by fingerprints, then by keys in the buckets that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference
from dedup_clone.contract.table import Column, TableContract
from dedup_spark.arrays import NO_INDICES, BoolArray, I64Array, Indices, U64Array
from dedup_spark.comparison.bucket_ranges import BucketRange, split_buckets
from dedup_spark.comparison.bucket_selection import in_buckets
from dedup_spark.comparison.duplicate_keys import (
    ResolvedDuplicates,
    find_duplicates,
    require_few_surplus_rows,
    resolve_duplicates,
)
from dedup_spark.comparison.key_comparison import repeated_in
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import SelectedRows, take_rows
from dedup_spark.fingerprints.buckets import MAX_COARSER_BITS, BucketFingerprints, bits_for
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate


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
# About this many hashes are sorted at a time, to find duplicate keys.
_HASHES_PER_RANGE = 16 << 20

# Ascending row numbers by file number.
RowNumbers = dict[int, I64Array]


@dataclass
class DateMerge:
    """Which rows a rewritten date has: the parent's except `removed`, and those of the delivery in `inserted`.

    Rows are given by their numbers in each file. If `inserted` is None, it stands for all delivered rows except
    `surplus`. `surplus_rows`: how many surplus rows the delivery has, in both cases. `fingerprints`: of the delivery's
    distinct keys and their values. `uses_stored`: whether they were compared with stored fingerprints of the parent; if
    not, all of the `bucket_count` buckets count as differing. `examples`: keys, as text, for each kind of difference.
    """

    fingerprints: BucketFingerprints
    uses_stored: bool
    bucket_count: int
    differing_bucket_count: int
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

    def remove_surplus(self, newest: KeySource, duplicates: list[ResolvedDuplicates]) -> None:
        """Count surplus rows, and remove them from the fingerprints, in which the next publish needs each key once."""
        for resolved in duplicates:
            self.surplus_rows += len(resolved.surplus)
            self.fingerprints.remove(*newest.key_hashes(resolved.surplus), resolved.surplus.value_hashes)


def merge_date(
    table: TableContract, task: RewriteTask, newest: KeySource, parent: KeySource | None, rows: int, *, exact: bool
) -> DateMerge:
    """Compare the delivery `newest` with the parent's rows of the date. `task` must have a delivery.

    `rows`: about how many rows the delivery has, by which the number of buckets is chosen. `exact`: compare all keys,
    whatever the fingerprints say. Raises TooManyDuplicates.
    """
    assert task.delivered
    columns = key_columns(table)
    if task.parent is None or parent is None:
        return _all_new(columns, newest, rows)
    snapshot_id = task.delivered.delivery.snapshot_id
    parent_fingerprints = None
    if not exact:
        parent_fingerprints = _stored_fingerprints(task.policy, snapshot_id, task.parent, newest.key_hasher)
    bits = bits_for(rows, task.parent.differing_share)
    if parent_fingerprints and parent_fingerprints.bits < bits - MAX_COARSER_BITS:
        parent_fingerprints = None
    fingerprints = newest.fingerprints(bits)
    common_bits = min(bits, parent_fingerprints.bits) if parent_fingerprints else bits
    differs = np.ones(1 << common_bits, dtype=bool)
    if parent_fingerprints:
        delivered_sums, parent_sums = fingerprints.coarsened(common_bits), parent_fingerprints.coarsened(common_bits)
        differs, values_differ = delivered_sums.differs(parent_sums), delivered_sums.values_differ(parent_sums)
        differs = differs if values_differ is None else differs | values_differ
    merge = DateMerge(fingerprints, parent_fingerprints is not None, len(differs), int(differs.sum()))
    expected_rows = fingerprints.coarsened(common_bits).counts + task.parent.entry.rows / len(differs)
    ranges = split_buckets(np.where(differs, expected_rows, 0.0), ROWS_PER_RANGE)
    inserted: _UnsortedRowNumbers = defaultdict(list)
    removed: _UnsortedRowNumbers = defaultdict(list)
    duplicates: list[ResolvedDuplicates] = []
    for new_rows, old_rows in _rows_by_range(newest, parent, differs, common_bits, ranges):
        new_keys, old_keys = pack_keys(columns, [new_rows.key_columns, old_rows.key_columns]).lists
        pairs = pair_rows(new_keys, old_keys, new_rows, old_rows, task.policy, snapshot_id)
        if pairs is None:
            resolved = resolve_duplicates(newest, new_rows, new_keys, repeated_in(np.sort(new_keys)))
            duplicates.append(resolved)
            require_few_surplus_rows(sum(len(some.surplus) for some in duplicates))
            new_rows = resolved.retained
            pairs = pair_rows(resolved.keys, old_keys, new_rows, old_rows, task.policy, snapshot_id)
            assert pairs
        merge.new_keys += len(pairs.new)
        merge.changed += len(pairs.changed)
        _add_row_numbers(inserted, new_rows, np.concatenate([pairs.new, pairs.replacing]))
        _add_row_numbers(removed, old_rows, pairs.replaced)
        _add_examples(table, merge.examples, new_rows, old_rows, pairs)
    merge.inserted, merge.removed = _sorted(inserted), _sorted(removed)
    merge.remove_surplus(newest, duplicates)
    return merge


def _rows_by_range(
    newest: KeySource, parent: KeySource, is_selected: BoolArray, bits: int, ranges: Sequence[BucketRange]
) -> Iterator[tuple[SelectedRows, SelectedRows]]:
    """Yield the rows of both inputs, range by range, from the buckets for which `is_selected` is true.

    Each input is read only once.
    """
    if not ranges:
        return
    delivered_rows, parent_rows = RangedRows(ranges, bits), RangedRows(ranges, bits)
    newest.select_and_hash(in_buckets(is_selected, bits), delivered_rows)
    parent.select_and_hash(in_buckets(is_selected, bits), parent_rows)
    for number in range(len(ranges)):
        yield delivered_rows.of_range(number), parent_rows.of_range(number)


def _all_new(columns: tuple[Column, ...], newest: KeySource, rows: int) -> DateMerge:
    """Return the merge of a date that the parent lacks: only duplicate keys have to be found.

    Raises TooManyDuplicates.
    """
    bits = bits_for(rows, None)
    fingerprints = newest.fingerprints(bits)
    merge = DateMerge(fingerprints, False, 1 << bits, 1 << bits, inserted=None)
    duplicates: list[ResolvedDuplicates] = []
    surplus: _UnsortedRowNumbers = defaultdict(list)
    for resolved in find_duplicates(newest, columns, fingerprints.counts, bits, _HASHES_PER_RANGE):
        duplicates.append(resolved)
        require_few_surplus_rows(sum(len(some.surplus) for some in duplicates))
        _add_row_numbers(surplus, resolved.surplus, np.arange(len(resolved.surplus)))
    merge.surplus = _sorted(surplus)
    merge.remove_surplus(newest, duplicates)
    merge.new_keys = fingerprints.rows
    return merge


def _stored_fingerprints(
    policy: MergePolicy, snapshot_id: int, parent: ParentDate, hasher: KeyHasher
) -> BucketFingerprints | None:
    """Return the parent's stored fingerprints if buckets with equal fingerprints need no comparison, otherwise None.

    They have no value sums if values need not be compared.
    """
    entry = parent.entry
    if policy is MergePolicy.LATE and snapshot_id < entry.max_update_id:
        # The fingerprints are of the parent's rows with the highest update_id, which win whatever their values are.
        found = parent.stored_fingerprints(hasher)
        return replace(found.buckets, value_sums=None) if found and found.update_id == entry.max_update_id else None
    if policy is not MergePolicy.BY_VALUE:
        return None
    # The fingerprints are of the date's previous delivery. They serve only if the parent has all rows of that delivery,
    # with the same values, and otherwise only survivors.
    found = parent.stored_fingerprints(hasher) if entry.content_fingerprint else None
    if found is None or found.buckets.values_digest() != entry.content_fingerprint:
        return None
    return found.buckets if found.buckets.rows == entry.rows - entry.survivors else None


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
    lacks. Indices ascend, except in `replacing`.
    """

    new: Indices
    replacing: Indices
    replaced: Indices
    changed: Indices
    missing: Indices


def pair_rows(
    delivered_keys: U64Array,
    parent_keys: U64Array,
    delivered: SelectedRows,
    parent: SelectedRows,
    policy: MergePolicy,
    snapshot_id: int,
) -> RowPairs | None:
    """Pair rows by their packed keys. Return None if the delivery has duplicate keys, which must be resolved first.

    `snapshot_id`: the snapshot id of the delivery, and so the update_id of its rows.
    """
    order = np.argsort(delivered_keys)
    ordered = delivered_keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        return None
    if not len(delivered_keys):
        return RowPairs(NO_INDICES, NO_INDICES, NO_INDICES, NO_INDICES, np.arange(len(parent_keys)))
    nearest = np.minimum(np.searchsorted(ordered, parent_keys), len(delivered_keys) - 1)
    is_paired = ordered[nearest] == parent_keys
    paired, partner = np.flatnonzero(is_paired), order[nearest[is_paired]]
    is_new = np.ones(len(delivered_keys), dtype=bool)
    is_new[partner] = False
    differs = delivered.value_hashes[partner] != parent.value_hashes[paired]
    replaces = _replaces(policy, differs, parent.update_ids[paired], snapshot_id)
    return RowPairs(
        new=np.flatnonzero(is_new),
        replacing=partner[replaces],
        replaced=paired[replaces],
        changed=paired[replaces & differs],
        missing=np.flatnonzero(~is_paired),
    )


def _replaces(policy: MergePolicy, differs: BoolArray, parent_ids: I64Array, snapshot_id: int) -> BoolArray:
    """For each pair whether the delivered row replaces the parent's."""
    if policy is MergePolicy.BY_VALUE:
        return differs
    # If the update_ids are equal, the later delivery wins, which is this one: the parent has only earlier deliveries.
    return np.asarray(parent_ids <= snapshot_id)
