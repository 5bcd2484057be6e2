"""Which rows have to be compared, by the buckets whose fingerprints differ.

Where one input has a single key more in a bucket than the other, and the same keys otherwise, the bucket's sums differ
by exactly the hashes of that key. The key's first hash is therefore known beforehand, and only rows with this hash are
compared. Their hashes are then checked against the difference of the sums: where they do not make up all of it, the
bucket is compared as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import EMPTY_U64, NO_INDICES, BoolArray, Indices, U64Array
from dedup_spark.comparison.bucket_ranges import BucketRange
from dedup_spark.comparison.selected_rows import RowSelection, RowSelector
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of

# What is compared in a bucket: nothing; all keys; the one key that the sums name; nothing, as only values differ.
SKIPPED, ALL_KEYS, ONE_KEY, VALUES_ONLY = range(4)
# In any case so many differing buckets are compared as a whole, to have examples of changed rows.
_EXAMPLE_BUCKETS = 16
# Rows to expect from a bucket of which one key is compared, both inputs together, and from one of which none is.
_ONE_KEY_ROWS, _ALMOST_NO_ROWS = 2.0, 1e-3


@dataclass(frozen=True)
class BucketSelection:
    """What is compared in each of `2**bits` buckets.

    `kinds` is by bucket: SKIPPED, ALL_KEYS, ONE_KEY or VALUES_ONLY. `one_key_hashes` is by bucket too: the first hash
    of the one key to compare. The other arrays are of the buckets in `one_key_buckets`, which ascend: `second_hashes`
    are those that the one keys should have, `newest_has_more` is False where the other input has the additional key.
    """

    bits: int
    kinds: npt.NDArray[np.uint8]
    one_key_hashes: U64Array
    one_key_buckets: Indices
    second_hashes: U64Array
    newest_has_more: BoolArray

    @cached_property
    def _is_selected(self) -> BoolArray:
        return np.asarray(self.kinds != SKIPPED)

    def select_rows(self, first_hashes: U64Array) -> RowSelection:
        """The rows whose keys have to be compared, and, to be hashed only, all other rows of buckets not SKIPPED.

        The keys of these other rows are in both inputs, but values may differ in their buckets.
        """
        buckets = bucket_of(first_hashes, self.bits)
        rows = np.flatnonzero(self._is_selected[buckets])
        buckets = buckets[rows]
        kinds = self.kinds[buckets]
        is_compared = kinds == ALL_KEYS
        if self.has_one_key_buckets:
            is_compared |= (kinds == ONE_KEY) & (first_hashes[rows] == self.one_key_hashes[buckets])
        return RowSelection(rows[is_compared], rows[~is_compared])

    def selected_rows(self, first_hashes: U64Array) -> Indices:
        """Indices of the rows in buckets that are not SKIPPED."""
        return np.flatnonzero(self._is_selected[bucket_of(first_hashes, self.bits)])

    def one_key_rows(self, first_hashes: U64Array) -> Indices:
        """Indices of the rows in ONE_KEY buckets."""
        return np.flatnonzero(self.kinds[bucket_of(first_hashes, self.bits)] == ONE_KEY)

    @cached_property
    def has_one_key_buckets(self) -> bool:
        return bool((self.kinds == ONE_KEY).any())

    def within(self, part: BucketRange) -> BucketSelection:
        """The same, with all buckets outside the range SKIPPED."""
        kinds = np.zeros_like(self.kinds)
        kinds[part.start : part.stop] = self.kinds[part.start : part.stop]
        return replace(self, kinds=kinds)

    def with_kind(self, kind: int, buckets: Indices) -> BucketSelection:
        """The same, with another kind for these buckets."""
        kinds = self.kinds.copy()
        kinds[buckets] = kind
        return replace(self, kinds=kinds)

    def expected_rows(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """How many rows are compared in each bucket, if the inputs have `rows` by bucket."""
        by_kind = np.array([0.0, 0.0, _ONE_KEY_ROWS, _ALMOST_NO_ROWS], dtype=np.float32)
        return np.asarray(np.where(self.kinds == ALL_KEYS, rows, by_kind[self.kinds]))

    def unexplained(self, newest: tuple[U64Array, U64Array], base: tuple[U64Array, U64Array]) -> Indices:
        """ONE_KEY buckets whose difference of the sums is not that of the compared rows.

        `newest` and `base` are first and second hashes of the compared rows of both inputs in ONE_KEY buckets.
        """
        buckets = np.flatnonzero(self.kinds == ONE_KEY)
        rows, sums = np.zeros(len(buckets), dtype=np.int64), np.zeros(len(buckets), dtype=np.uint64)
        for (first, second), count, add in ((newest, 1, np.add), (base, -1, np.subtract)):
            indices = np.searchsorted(buckets, bucket_of(first, self.bits))
            np.add.at(rows, indices, count)
            add.at(sums, indices, second)
        known = np.searchsorted(self.one_key_buckets, buckets)
        has_more, seconds = self.newest_has_more[known], self.second_hashes[known]
        expected = np.where(has_more, seconds, np.uint64(0) - seconds)
        return np.asarray(buckets[(rows != np.where(has_more, 1, -1)) | (sums != expected)])


def in_buckets(wanted: BoolArray, bits: int) -> RowSelector:
    """Selects all rows of the `wanted` buckets."""
    return lambda first_hashes: RowSelection(np.flatnonzero(wanted[bucket_of(first_hashes, bits)]), NO_INDICES)


def select_all_keys(wanted: BoolArray, bits: int) -> BucketSelection:
    """Compares all keys of the `wanted` buckets."""
    kinds, no_hashes = np.where(wanted, ALL_KEYS, SKIPPED).astype(np.uint8), np.zeros(len(wanted), dtype=np.uint64)
    return BucketSelection(bits, kinds, no_hashes, NO_INDICES, EMPTY_U64, np.zeros(0, dtype=bool))


def select_differing_keys(newest: BucketFingerprints, base: BucketFingerprints) -> BucketSelection:
    """Compares as few keys as the fingerprints of the two inputs, in the same number of buckets, allow."""
    differs, values_differ = newest.differs(base), newest.values_differ(base)
    kinds = np.zeros(len(differs), dtype=np.uint8)
    if values_differ is not None:
        kinds[values_differ] = VALUES_ONLY
    kinds[differs] = ALL_KEYS
    one_more, one_less = newest.counts == base.counts + np.uint32(1), newest.counts + np.uint32(1) == base.counts
    buckets = np.flatnonzero(differs & (one_more | one_less))
    has_more = one_more[buckets]
    first = newest.first_sums[buckets] - base.first_sums[buckets]
    second = newest.second_sums[buckets] - base.second_sums[buckets]
    first, second = (np.where(has_more, sums, np.uint64(0) - sums) for sums in (first, second))
    # A difference of sums that is one key's first hash leads to the key's own bucket.
    is_own = bucket_of(first, newest.bits) == buckets
    buckets, first, second, has_more = buckets[is_own], first[is_own], second[is_own], has_more[is_own]
    kinds[buckets] = ONE_KEY
    kinds[np.flatnonzero(kinds)[:_EXAMPLE_BUCKETS]] = ALL_KEYS
    one_key_hashes = np.zeros(len(kinds), dtype=np.uint64)
    one_key_hashes[buckets] = first
    return BucketSelection(newest.bits, kinds, one_key_hashes, buckets, second, has_more)
