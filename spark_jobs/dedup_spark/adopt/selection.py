"""Which rows of differing buckets are compared. Where one key makes the difference, its hash is known beforehand.

A bucket that has one key more on one side than on the other, and the same keys otherwise, differs in its sums by that
key's hashes: only rows of that hash are compared, all others are the same on both sides. What has that hash is held
against the sums; a bucket that it does not explain is compared as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.picked import NO_ROWS, NO_WORDS, ChosenRows, Rows
from dedup_spark.adopt.slices import Slice
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.key_columns import Words

# Kinds of buckets: nothing to do; all keys are compared; one key is looked up; keys agree and values do not.
CLOSED, WHOLE, SINGLE, VALUES = range(4)
# So many open buckets are compared as a whole in any case: examples of changed rows come from there.
_SAMPLED = 16
# Rows picked of a bucket of which one key is looked up, on both sides together; and next to none.
_LOOKED_UP_ROWS, _HARDLY_ANY = 2.0, 1e-3

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Selection:
    """`kinds` by bucket; `targets` by bucket: the first hash to look up.

    Of the buckets `singles`, ascending: `seconds` are the second hashes that should be found, `more` says where it is
    the newest delivery that has the key.
    """

    bits: int
    kinds: npt.NDArray[np.uint8]
    targets: Words
    singles: Rows
    seconds: Words
    more: Mask

    @cached_property
    def _is_open(self) -> Mask:
        return np.asarray(self.kinds != CLOSED)

    def rows(self, first: Words) -> ChosenRows:
        """Of rows with these first hashes: those whose keys have to be compared, and the others of open buckets.

        The others' keys are on both sides, and values differ somewhere in their bucket, or may do so.
        """
        buckets = bucket_of(first, self.bits)
        rows = np.flatnonzero(self._is_open[buckets])
        buckets = buckets[rows]
        kinds = self.kinds[buckets]
        is_compared = kinds == WHOLE
        if self.narrows:
            is_compared |= (kinds == SINGLE) & (first[rows] == self.targets[buckets])
        return ChosenRows(rows[is_compared], rows[~is_compared])

    def open_rows(self, first: Words) -> Rows:
        """Rows in open buckets."""
        return np.flatnonzero(self._is_open[bucket_of(first, self.bits)])

    def single_rows(self, first: Words) -> Rows:
        """Rows in buckets of which one key is looked up."""
        return np.flatnonzero(self.kinds[bucket_of(first, self.bits)] == SINGLE)

    @cached_property
    def narrows(self) -> bool:
        """Whether there is any such bucket."""
        return bool((self.kinds == SINGLE).any())

    def of(self, part: Slice) -> Selection:
        """In this range of buckets alone."""
        kinds = np.zeros_like(self.kinds)
        kinds[part.start : part.stop] = self.kinds[part.start : part.stop]
        return replace(self, kinds=kinds)

    def with_kind(self, kind: int, buckets: npt.NDArray[np.intp]) -> Selection:
        """The same, but for the kind of these buckets."""
        kinds = self.kinds.copy()
        kinds[buckets] = kind
        return replace(self, kinds=kinds)

    def weights(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Of the expected `rows` by bucket, as many as are picked."""
        picked = np.array([0.0, 0.0, _LOOKED_UP_ROWS, _HARDLY_ANY], dtype=np.float32)[self.kinds]  # by kind
        return np.asarray(np.where(self.kinds == WHOLE, rows, picked))

    def unexplained(self, newest: tuple[Words, Words], base: tuple[Words, Words]) -> npt.NDArray[np.intp]:
        """Buckets of kind SINGLE in which what is compared does not make up the whole difference of the sums.

        `newest` and `base` are both hashes of the rows in such buckets that are compared, of either side.
        """
        singles = np.flatnonzero(self.kinds == SINGLE)
        rows, sums = np.zeros(len(singles), dtype=np.int64), np.zeros(len(singles), dtype=np.uint64)
        for (first, second), count, add in ((newest, 1, np.add), (base, -1, np.subtract)):
            places = np.searchsorted(singles, bucket_of(first, self.bits))
            np.add.at(rows, places, count)
            add.at(sums, places, second)
        known = np.searchsorted(self.singles, singles)
        more, seconds = self.more[known], self.seconds[known]
        expected = np.where(more, seconds, np.uint64(0) - seconds)
        return np.asarray(singles[(rows != np.where(more, 1, -1)) | (sums != expected)])


def select_whole(is_open: Mask, bits: int) -> Selection:
    """All keys of open buckets are compared."""
    kinds, no_targets = np.where(is_open, WHOLE, CLOSED).astype(np.uint8), np.zeros(len(is_open), dtype=np.uint64)
    return Selection(bits, kinds, no_targets, NO_ROWS, NO_WORDS, np.zeros(0, dtype=bool))


def select(newest: BucketFingerprints, base: BucketFingerprints) -> Selection:
    """As few rows as the fingerprints of the two key sets, in the same number of buckets, allow."""
    differs, values_differ = newest.differs(base), newest.values_differ(base)
    kinds = np.zeros(len(differs), dtype=np.uint8)
    if values_differ is not None:
        kinds[values_differ] = VALUES
    kinds[differs] = WHOLE
    more, less = newest.counts == base.counts + np.uint32(1), newest.counts + np.uint32(1) == base.counts
    singles = np.flatnonzero(differs & (more | less))
    is_more = more[singles]
    first, second = newest.firsts[singles] - base.firsts[singles], newest.seconds[singles] - base.seconds[singles]
    first, second = (np.where(is_more, words, np.uint64(0) - words) for words in (first, second))
    is_own = bucket_of(first, newest.bits) == singles
    singles, first, second, is_more = singles[is_own], first[is_own], second[is_own], is_more[is_own]
    kinds[singles] = SINGLE
    kinds[np.flatnonzero(kinds)[:_SAMPLED]] = WHOLE
    targets = np.zeros(len(kinds), dtype=np.uint64)
    targets[singles] = first
    return Selection(newest.bits, kinds, targets, singles, second, is_more)
