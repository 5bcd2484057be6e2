"""Counts rows whose values changed, by value hashes: hashes of a row's key and values."""

from __future__ import annotations

import numpy as np

from dedup_spark.arrays import BoolArray, Indices, U64Array
from dedup_spark.comparison.key_comparison import diff_keys, indices_of
from dedup_spark.comparison.selected_rows import SelectedRows

_ONE = np.uint64(1)
# Rows that are examined for examples of changed rows.
_MAX_CANDIDATES = 1000
# With sixteen slots for each hash, the bitmap has about one false positive in sixteen other hashes.
_SLOTS_PER_HASH, _MIN_BITS, _MAX_BITS = 16, 10, 24
_PARTITION_BITS = 12


def find_changed_rows(
    newest: SelectedRows, parent: SelectedRows, parent_keys: U64Array, missing: U64Array, max_examples: int
) -> tuple[int, Indices]:
    """Return how many keys of both inputs have other values, and the indices in `parent` of some of their rows.

    `parent_keys`: the packed keys of `parent`. `missing`: those that the newest delivery lacks, sorted. Rows need not
    be matched: the number is that of the common keys minus that of the common value hashes.
    """
    # `diff_keys` compares keys of 63 bits, so the lowest bit of a hash is dropped.
    hashes = parent.value_hashes >> _ONE
    gone = diff_keys(newest.value_hashes >> _ONE, hashes, 0).missing
    count = (len(parent_keys) - len(missing)) - (len(hashes) - len(gone))
    if not count:
        return 0, indices_of(hashes, gone[:0])
    # Hashes that are gone are of changed rows or of missing keys. The first ones are enough for examples.
    rows = indices_of(hashes, gone[: max_examples + len(missing)][:_MAX_CANDIDATES])
    is_changed = np.ones(len(rows), dtype=bool)
    is_changed[indices_of(parent_keys[rows], missing)] = False
    return count, rows[is_changed][:max_examples]


def count_overruled_rows(order: Indices, is_last: BoolArray, is_parent: BoolArray, value_hashes: U64Array) -> int:
    """How many rows of the parent lose against a row of an older delivery with the same key and other values.

    `order` sorts the rows by key and precedence. `is_last`, in that order: whether the row is the last of its key,
    which wins. `is_parent`, `value_hashes`, in the rows' own order: whether the parent has the row, and its value hash.
    """
    winners = np.flatnonzero(is_last)
    overruled = np.flatnonzero(is_parent[order] & ~is_last)
    winning = winners[np.searchsorted(winners, overruled)]
    return int((value_hashes[order[overruled]] != value_hashes[order[winning]]).sum())


def count_missing(wanted: U64Array, present: U64Array) -> int:
    """How many of the distinct hashes `wanted` are not among the distinct hashes `present`.

    A bitmap finds nearly all missing hashes. Sums over many small partitions show where it overlooked some. Only these
    partitions are sorted and compared exactly, because sorting is the slowest step.
    """
    gone, new = wanted[~_may_be_in(present, wanted)], present[~_may_be_in(wanted, present)]
    differs = _partition_sums(wanted) - _partition_sums(gone) != _partition_sums(present) - _partition_sums(new)
    exact = diff_keys(present[differs[_partition(present)]] >> _ONE, wanted[differs[_partition(wanted)]] >> _ONE, 0)
    return int((~differs[_partition(gone)]).sum()) + len(exact.missing)


def _may_be_in(hashes: U64Array, wanted: U64Array) -> BoolArray:
    """For each `wanted` hash whether one of `hashes` begins with the same bits."""
    bits = min(max((len(hashes) * _SLOTS_PER_HASH).bit_length(), _MIN_BITS), _MAX_BITS)
    shift = np.uint64(64 - bits)
    bitmap = np.zeros(1 << bits, dtype=bool)
    bitmap[(hashes >> shift).astype(np.intp)] = True
    return bitmap[(wanted >> shift).astype(np.intp)]


def _partition_sums(hashes: U64Array) -> U64Array:
    sums = np.zeros(1 << _PARTITION_BITS, dtype=np.uint64)
    np.add.at(sums, _partition(hashes), hashes)
    return sums


def _partition(hashes: U64Array) -> Indices:
    """Return the partition number of each hash: low bits, which the bitmap does not use, but not the lowest one."""
    return ((hashes >> _ONE) & np.uint64((1 << _PARTITION_BITS) - 1)).astype(np.intp)
