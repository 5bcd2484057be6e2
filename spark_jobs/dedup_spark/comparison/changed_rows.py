"""Counts rows whose values changed, by value hashes: hashes of a row's key and values."""

from __future__ import annotations

import numpy as np

from dedup_spark.arrays import BoolArray, Indices, U64Array
from dedup_spark.comparison.key_comparison import diff_keys, indices_of
from dedup_spark.comparison.selected_rows import SelectedRows

_ONE = np.uint64(1)
# The most rows that are examined for examples of changed rows.
_MAX_EXAMINED_ROWS = 1000


def find_changed_rows(
    newest: SelectedRows, parent: SelectedRows, parent_keys: U64Array, missing: U64Array, max_examples: int
) -> tuple[int, Indices]:
    """Return the number of keys that are in both inputs with different values, and some of their rows.

    The rows are indices in `parent`, at most `max_examples`. `parent_keys`: the packed keys of `parent` (integers that
    are equal if and only if the keys are, see packed_keys.py). `missing`: those `parent_keys` that the newest
    delivery lacks, sorted. The count needs no pairs of rows: it is the number of common keys minus that of common value
    hashes.
    """
    # `diff_keys` compares keys of 63 bits, so the lowest bit of a hash is dropped.
    hashes = parent.value_hashes >> _ONE
    gone = diff_keys(newest.value_hashes >> _ONE, hashes, 0).missing
    count = (len(parent_keys) - len(missing)) - (len(hashes) - len(gone))
    if not count:
        return 0, indices_of(hashes, gone[:0])
    # A hash that is gone belongs to a changed row or to a missing key. Only the first of these hashes are looked at:
    # if over `_MAX_EXAMINED_ROWS` keys are missing, there may be fewer examples than changed rows, or none.
    rows = indices_of(hashes, gone[: max_examples + len(missing)][:_MAX_EXAMINED_ROWS])
    is_changed = np.ones(len(rows), dtype=bool)
    is_changed[indices_of(parent_keys[rows], missing)] = False
    return count, rows[is_changed][:max_examples]


def count_overruled_rows(order: Indices, is_last: BoolArray, is_parent: BoolArray, value_hashes: U64Array) -> int:
    """How many of the parent's rows lose against a row of an older delivery that has the same key and other values.

    Older deliveries are the applied ones except the newest. `order`: the indices of the rows, sorted by key, then
    update_id, then source: the last row of a key wins. `is_last`, in this order: whether a row is the last of its key.
    `is_parent`, `value_hashes`, in the order of the rows: whether a row is the parent's, and its value hash.
    """
    winners = np.flatnonzero(is_last)
    overruled = np.flatnonzero(is_parent[order] & ~is_last)
    winning = winners[np.searchsorted(winners, overruled)]
    return int((value_hashes[order[overruled]] != value_hashes[order[winning]]).sum())
