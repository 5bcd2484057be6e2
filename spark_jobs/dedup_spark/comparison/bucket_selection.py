"""Selects the rows to compare: those in buckets where the fingerprints of the newest delivery and another input differ.

A key has two hashes; some bits of the first choose its bucket. A bucket's fingerprint has a sum of each. If one input
has a single key more in a bucket than the other, and the same keys otherwise, the sums differ by exactly the hashes of
this key. Its first hash is therefore known, and only rows with this hash are compared. If whole buckets have too many
rows, `narrowed` selects only their sub-buckets that differ. Afterwards the hashes of the compared rows are checked
against the difference of the sums: a bucket whose difference they do not explain is compared as a whole. Each other
input forms a pair with the newest delivery; a key that differs in one pair is compared in all inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import EMPTY_U64, NO_INDICES, BoolArray, Indices, U64Array
from dedup_spark.comparison.bucket_ranges import BucketRange
from dedup_spark.comparison.key_comparison import KeySet
from dedup_spark.comparison.selected_rows import RowSelection, RowSelector
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.sub_buckets import SubBuckets

# The kind of a bucket says which of its keys are compared: SKIPPED none; ALL_KEYS all; ONE_KEY the one key that the
# sums identify; VALUES_ONLY none, because only values differ; SUB_BUCKETS the keys in sub-buckets that differ.
SKIPPED, ALL_KEYS, ONE_KEY, VALUES_ONLY, SUB_BUCKETS = range(5)
# The kinds of buckets in which only some keys are compared.
_NARROWED = (ONE_KEY, SUB_BUCKETS)
# The first differing buckets, at most this many, are compared as a whole, to have examples of changed rows.
_EXAMPLE_BUCKETS = 16
# Expected rows to compare, in all inputs together: in a ONE_KEY bucket, and in a VALUES_ONLY bucket. The latter has
# none, but its number is above 0, because value hashes are read only if `split_buckets` returns at least one range.
_ONE_KEY_ROWS, _VALUES_ONLY_ROWS = 2.0, 1e-3


Hashes = tuple[U64Array, U64Array]  # first and second hashes of the same keys


@dataclass(frozen=True)
class PairSelection:
    """Which keys are compared in each bucket to find how the newest delivery differs from one other input.

    `kinds`: the kind of each bucket. `one_key_hashes`: the first hash of the key that is compared in each ONE_KEY
    bucket. `newest`, `other`: the fingerprints of the two inputs.
    """

    kinds: npt.NDArray[np.uint8]
    one_key_hashes: U64Array
    newest: BucketFingerprints
    other: BucketFingerprints

    def unexplained(self, is_narrowed: BoolArray, newest: Hashes, other: Hashes) -> Indices:
        """The numbers of the buckets in which the compared rows do not explain the difference between the two inputs.

        `is_narrowed`: for each bucket whether only some of its keys are compared, in all pairs together. `newest`,
        `other`: the hashes of the compared rows of each input; those in buckets that are not narrowed are ignored.
        """
        buckets = np.flatnonzero(is_narrowed & np.isin(self.kinds, _NARROWED))
        if not len(buckets):
            return buckets
        counts = self.other.counts[buckets].astype(np.int64) - self.newest.counts[buckets]
        firsts = self.other.first_sums[buckets] - self.newest.first_sums[buckets]
        seconds = self.other.second_sums[buckets] - self.newest.second_sums[buckets]
        for (first, second), count, add in ((newest, 1, np.add), (other, -1, np.subtract)):
            row_buckets = bucket_of(first, self.newest.bits)
            positions = np.minimum(np.searchsorted(buckets, row_buckets), len(buckets) - 1)
            is_narrowed_row = buckets[positions] == row_buckets
            np.add.at(counts, positions[is_narrowed_row], count)
            add.at(firsts, positions[is_narrowed_row], first[is_narrowed_row])
            add.at(seconds, positions[is_narrowed_row], second[is_narrowed_row])
        return np.asarray(buckets[(counts != 0) | (firsts != 0) | (seconds != 0)])


@dataclass(frozen=True)
class BucketSelection:
    """Which keys are compared in each of `2**bits` buckets, for all pairs of inputs together.

    `kinds`: the kind of each bucket; in a ONE_KEY bucket one key is compared for each pair that has this kind there.
    `needs_value_hashes`: for each bucket whether values may differ in it; then the value hashes of all its rows are
    needed, also of rows whose keys are not compared. `differing`: the sub-buckets to compare; None if no bucket is of
    the kind SUB_BUCKETS.
    """

    bits: int
    kinds: npt.NDArray[np.uint8]
    needs_value_hashes: BoolArray
    pairs: tuple[PairSelection, ...]
    differing: SubBuckets | None = None

    @cached_property
    def _one_key_hashes(self) -> KeySet:
        """The first hashes of the keys that pairs compare in ONE_KEY buckets, ascending and without duplicates."""
        return KeySet.from_sorted(np.unique(np.concatenate([EMPTY_U64, *(pair.one_key_hashes for pair in self.pairs)])))

    def select_rows(self, first_hashes: U64Array) -> RowSelection:
        """The rows whose keys have to be compared, and the rows of which only the value hash is needed.

        The latter are all other rows in buckets with `needs_value_hashes`. Their keys are the same in the newest
        delivery and in the parent's base, but values may differ. Among them may be rows of the parent that are not of
        its base; the caller has to leave these out.
        """
        buckets, rows, is_compared = self._compared(first_hashes)
        return RowSelection(rows[is_compared], rows[~is_compared & self.needs_value_hashes[buckets[rows]]])

    def select_compared(self, first_hashes: U64Array) -> RowSelection:
        """The rows whose keys have to be compared, and no others."""
        _, rows, is_compared = self._compared(first_hashes)
        return RowSelection(rows[is_compared], NO_INDICES)

    def _compared(self, first_hashes: U64Array) -> tuple[Indices, Indices, BoolArray]:
        """The bucket of each row, the rows in buckets that are not SKIPPED, and which of these rows are compared."""
        buckets = bucket_of(first_hashes, self.bits)
        kinds = self.kinds[buckets]
        rows = np.flatnonzero(kinds != SKIPPED)  # booleans are several times as fast as integers
        kinds = kinds[rows]
        is_compared = np.asarray(kinds == ALL_KEYS)
        in_one_key = np.flatnonzero(kinds == ONE_KEY)
        is_compared[in_one_key[self._one_key_hashes.indices_in(first_hashes[rows[in_one_key]])]] = True
        if self.differing is not None:
            in_sub_buckets = np.flatnonzero(kinds == SUB_BUCKETS)
            is_compared[in_sub_buckets] = self.differing.contain(first_hashes[rows[in_sub_buckets]])
        return buckets, rows, is_compared

    def rows_not_skipped(self, first_hashes: U64Array) -> Indices:
        """Indices of the rows in buckets that are not SKIPPED."""
        return np.flatnonzero(self.kinds[bucket_of(first_hashes, self.bits)] != SKIPPED)

    def narrowed_rows(self, first_hashes: U64Array) -> Indices:
        """Indices of the rows in ONE_KEY and SUB_BUCKETS buckets."""
        return np.flatnonzero(np.isin(self.kinds, _NARROWED)[bucket_of(first_hashes, self.bits)])

    def within(self, bucket_range: BucketRange) -> BucketSelection:
        """This selection with all buckets outside the range SKIPPED."""
        start, stop = bucket_range
        kinds = np.zeros_like(self.kinds)
        kinds[start:stop] = self.kinds[start:stop]
        return replace(self, kinds=kinds)

    def with_kind(self, kind: int, buckets: Indices) -> BucketSelection:
        """This selection with the given kind for these buckets."""
        kinds = self.kinds.copy()
        kinds[buckets] = kind
        return replace(self, kinds=kinds)

    def narrowed(self, differing: SubBuckets) -> BucketSelection:
        """This selection with only the keys of the `differing` sub-buckets compared, instead of all keys of a bucket.

        `differing`: the sub-buckets that differ in any pair. The first differing buckets are still compared as a whole.
        """
        kinds = self.kinds.copy()
        is_narrowed = kinds == ALL_KEYS
        is_narrowed[np.flatnonzero(kinds != SKIPPED)[:_EXAMPLE_BUCKETS]] = False
        kinds[is_narrowed] = SUB_BUCKETS
        pairs = tuple(
            replace(pair, kinds=np.where(is_narrowed & (pair.kinds == ALL_KEYS), SUB_BUCKETS, pair.kinds))
            for pair in self.pairs
        )
        return replace(self, kinds=kinds, pairs=pairs, differing=differing)

    def expected_rows(self, row_counts: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """About how many rows are compared in each bucket. `row_counts`: the rows of all inputs, by bucket."""
        # By the number of the kind: SKIPPED, ALL_KEYS, ONE_KEY, VALUES_ONLY, SUB_BUCKETS. Two kinds are set below.
        by_kind = np.array([0.0, 0.0, _ONE_KEY_ROWS, _VALUES_ONLY_ROWS, 0.0], dtype=np.float32)
        expected = by_kind[self.kinds]
        np.copyto(expected, row_counts, where=self.kinds == ALL_KEYS)
        if self.differing is not None:
            buckets = np.flatnonzero(self.kinds == SUB_BUCKETS)
            expected[buckets] = row_counts[buckets] * self.differing.selected_shares(self.bits)[buckets]
        return expected

    def unexplained(self, newest: Hashes, others: Sequence[Hashes]) -> Indices:
        """The numbers of the buckets in which the compared rows do not explain the difference of at least one pair.

        Only ONE_KEY and SUB_BUCKETS buckets are examined. `newest`, `others`: the hashes of the compared rows in these
        buckets; `others` in the order of the pairs.
        """
        is_narrowed = np.isin(self.kinds, _NARROWED)
        found = (pair.unexplained(is_narrowed, newest, other) for pair, other in zip(self.pairs, others, strict=True))
        return np.unique(np.concatenate([NO_INDICES, *found]))


def in_buckets(is_selected: BoolArray, bits: int) -> RowSelector:
    """Return a selector of all rows in the buckets for which `is_selected` is true."""
    return lambda first_hashes: RowSelection(np.flatnonzero(is_selected[bucket_of(first_hashes, bits)]), NO_INDICES)


def select_all_keys(is_selected: BoolArray, bits: int) -> BucketSelection:
    """Return a selection of all keys in the buckets for which `is_selected` is true."""
    return BucketSelection(
        bits, np.where(is_selected, ALL_KEYS, SKIPPED).astype(np.uint8), np.zeros_like(is_selected), ()
    )


def select_differing_keys(
    newest: BucketFingerprints, others: Sequence[BucketFingerprints], *, has_base: bool
) -> BucketSelection:
    """Return a selection of as few keys as the fingerprints allow, and of all keys in the first differing buckets.

    All fingerprints have the same number of buckets.
    `has_base`: the first of `others` is the parent's base, whose values are compared with the newest delivery's.
    """
    pairs = [_select_pair(newest, other, with_values=has_base and other is others[0]) for other in others]
    kinds = np.zeros(1 << newest.bits, dtype=np.uint8)
    for kind in (VALUES_ONLY, ONE_KEY, ALL_KEYS):
        for pair in pairs:
            kinds[pair.kinds == kind] = kind
    kinds[np.flatnonzero(kinds != SKIPPED)[:_EXAMPLE_BUCKETS]] = ALL_KEYS
    needs_value_hashes = pairs[0].kinds != SKIPPED if has_base else np.zeros(len(kinds), dtype=bool)
    return BucketSelection(newest.bits, kinds, np.asarray(needs_value_hashes), tuple(pairs))


def _select_pair(newest: BucketFingerprints, other: BucketFingerprints, *, with_values: bool) -> PairSelection:
    """Choose the kind of each bucket for one pair. `with_values`: also find the buckets in which only values differ."""
    differs, values_differ = newest.differs(other), newest.values_differ(other)
    kinds = np.zeros(len(differs), dtype=np.uint8)
    if with_values and values_differ is not None:
        kinds[values_differ] = VALUES_ONLY
    kinds[differs] = ALL_KEYS
    has_one_more = newest.counts == other.counts + np.uint32(1)
    has_one_less = newest.counts + np.uint32(1) == other.counts
    buckets = np.flatnonzero(differs & (has_one_more | has_one_less))
    difference = newest.first_sums[buckets] - other.first_sums[buckets]
    difference = np.where(has_one_more[buckets], difference, np.uint64(0) - difference)
    # A difference of sums that is the first hash of a single key belongs to this key's bucket.
    is_one_key = bucket_of(difference, newest.bits) == buckets
    kinds[buckets[is_one_key]] = ONE_KEY
    return PairSelection(kinds, difference[is_one_key], newest, other)
