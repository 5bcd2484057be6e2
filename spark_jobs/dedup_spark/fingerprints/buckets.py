"""The fingerprint of a key set: per bucket a count and two wrapping sums of hashes.

Sums do not care about order or files, so fingerprints of parts add up. Two sets whose buckets agree in all three
numbers hold the same keys there, but for odds of about 2^-100 a publish (ADR 0005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dedup_spark.fingerprints.key_columns import Words

LEAST_BITS = 4
# Of the largest dates more would be met: each takes 28 bytes for either side, and none of them stays in a cache.
MOST_BITS = 22
_USUAL_ROWS_PER_BUCKET = 128
_LEAST_ROWS_PER_BUCKET, _MOST_ROWS_PER_BUCKET = 32, 256
# About so many of a hundred buckets may differ: fewer would mean larger fingerprints, more would mean larger joins.
_DIFFERING_SHARE = 0.1


def bits_for(rows: int, differing_share: float | None) -> int:
    """Bits of a bucket number for so many rows. `differing_share` of the rows (0 to 1) is expected to differ."""
    per_bucket = float(_USUAL_ROWS_PER_BUCKET)
    if differing_share:
        per_bucket = min(max(_DIFFERING_SHARE / differing_share, _LEAST_ROWS_PER_BUCKET), _MOST_ROWS_PER_BUCKET)
    return min(max(int(rows / per_bucket).bit_length(), LEAST_BITS), MOST_BITS)


def bucket_of(first: Words, bits: int) -> npt.NDArray[np.intp]:
    """The top bits of the first hash's square.

    Unlike the hash's own top bits these say of a difference of sums whether it may be a single key's: sums of several
    hashes of one bucket would begin like each of them.
    """
    square = first * first
    np.right_shift(square, np.uint64(64 - bits), out=square)
    return square.view(np.intp)  # below the sign bit: no need to copy


@dataclass
class BucketFingerprints:
    """`2**bits` buckets. `contents` are sums of hashes of the rows' values, None where they are not known.

    Changed in place by `add` and `remove`; the other methods leave it as it is.
    """

    bits: int
    counts: npt.NDArray[np.uint32]
    firsts: Words
    seconds: Words
    contents: Words | None

    @classmethod
    def empty(cls, bits: int, *, with_contents: bool = False) -> Self:
        counts, (firsts, seconds, contents) = np.zeros(1 << bits, np.uint32), np.zeros((3, 1 << bits), np.uint64)
        return cls(bits, counts, firsts, seconds, contents if with_contents else None)

    def add(self, first: Words, second: Words, contents: Words | None = None) -> None:
        """Add keys by their two hashes, and their rows' values by theirs."""
        buckets = bucket_of(first, self.bits)
        np.add.at(self.counts, buckets, np.uint32(1))
        np.add.at(self.firsts, buckets, first)
        np.add.at(self.seconds, buckets, second)
        if self.contents is not None and contents is not None:
            np.add.at(self.contents, buckets, contents)

    def remove(self, first: Words, second: Words, contents: Words | None = None) -> None:
        """Remove keys, and their rows' values. Without these what the values are is not known any more."""
        buckets = bucket_of(first, self.bits)
        if self.contents is not None and contents is not None:
            np.subtract.at(self.contents, buckets, contents)
        else:
            self.contents = None
        np.subtract.at(self.counts, buckets, np.uint32(1))
        np.subtract.at(self.firsts, buckets, first)
        np.subtract.at(self.seconds, buckets, second)

    def folded(self, bits: int) -> BucketFingerprints:
        """The same keys in fewer buckets (`bits` at most the own)."""
        if bits == self.bits:
            return self
        shape = (1 << bits, -1)
        return BucketFingerprints(
            bits,
            self.counts.reshape(shape).sum(axis=1, dtype=np.uint32),
            self.firsts.reshape(shape).sum(axis=1, dtype=np.uint64),
            self.seconds.reshape(shape).sum(axis=1, dtype=np.uint64),
            None if self.contents is None else self.contents.reshape(shape).sum(axis=1, dtype=np.uint64),
        )

    def differs(self, other: BucketFingerprints) -> npt.NDArray[np.bool_]:
        """For each bucket whether the keys differ there. Both have the same number of buckets."""
        found: npt.NDArray[np.bool_] = (
            (self.counts != other.counts) | (self.firsts != other.firsts) | (self.seconds != other.seconds)
        )
        return found

    def values_differ(self, other: BucketFingerprints) -> npt.NDArray[np.bool_] | None:
        """For each bucket whether rows differ in their values; None where these are not known of both."""
        if self.contents is None or other.contents is None:
            return None
        return np.asarray(self.contents != other.contents)

    @property
    def rows(self) -> int:
        return int(self.counts.sum(dtype=np.uint64))

    def digest(self) -> str:
        """Names the key set, whatever the number of buckets: row count and both sums over all keys, in hex."""
        first = int(self.firsts.sum(dtype=np.uint64))
        second = int(self.seconds.sum(dtype=np.uint64))
        return f"{self.rows:x}-{first:016x}{second:016x}"

    def contents_digest(self) -> str | None:
        """Names the rows' values: the sum over all rows, in hex."""
        return None if self.contents is None else f"{int(self.contents.sum(dtype=np.uint64)):016x}"
