"""Computes the fingerprint of a key set: for each bucket the number of keys, and sums of their two hashes modulo 2^64.

The order of keys and their distribution over files do not matter, so fingerprints of disjoint sets can be added. If two
sets agree in all three numbers of a bucket, they are taken to have the same keys in it. The probability that this is
wrong is derived in docs/adr/0005-adopt.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import BoolArray, Indices, U64Array

MIN_BITS = 4
# A bucket takes 28 bytes (a count of 4, three sums of 8), so the fingerprints of one input take at most 117 MB.
MAX_BITS = 22
# Stored fingerprints are used if they have at most this many bits fewer than a date needs now. With still fewer bits,
# too many buckets would differ.
MAX_COARSER_BITS = 3
_DEFAULT_ROWS_PER_BUCKET = 128
_MIN_ROWS_PER_BUCKET, _MAX_ROWS_PER_BUCKET = 32, 256
# About this share of the buckets should differ. A smaller share needs larger fingerprints; a larger share makes more
# rows be compared.
_DIFFERING_BUCKET_SHARE = 0.1


def bits_for(rows: int, differing_share: float | None, older_deliveries: int = 0) -> int:
    """Return how many bits a bucket number has for a date of `rows` rows.

    `differing_share`: the share of the rows (0 to 1) that is expected to differ; None if it is unknown.
    `older_deliveries`: how many older deliveries are compared with the newest. The fingerprints of all inputs are in
    memory at a time, so the limit MAX_BITS falls by one bit with one of them, by two with two or three, and so on.
    """
    rows_per_bucket = float(_DEFAULT_ROWS_PER_BUCKET)
    if differing_share:
        rows_per_bucket = _DIFFERING_BUCKET_SHARE / differing_share
        rows_per_bucket = min(max(rows_per_bucket, _MIN_ROWS_PER_BUCKET), _MAX_ROWS_PER_BUCKET)
    most_bits = MAX_BITS - older_deliveries.bit_length()
    return min(max(int(rows / rows_per_bucket).bit_length(), MIN_BITS), most_bits)


def bucket_of(first_hashes: U64Array, bits: int) -> Indices:
    """Return the bucket number of each key: the top bits of the square of its first hash.

    The comparison tests by this function whether the difference of two sums of a bucket may be the hash of a single
    key: the bucket of the difference must be the same. With the top bits of the hash itself, differences of several
    keys would often pass this test.
    """
    square = first_hashes * first_hashes
    np.right_shift(square, np.uint64(64 - bits), out=square)
    return square.view(np.intp)  # the numbers are small, so they are the same as signed ones and need no copy


@dataclass
class BucketFingerprints:
    """For each of `2**bits` buckets the number of keys, the sums of their two hashes, and that of their value hashes.

    `value_sums` is None if values are not compared, or if their sums are unknown. `add`, `add_all` and `remove` change
    the object.
    """

    bits: int
    counts: npt.NDArray[np.uint32]
    first_sums: U64Array
    second_sums: U64Array
    value_sums: U64Array | None

    @classmethod
    def empty(cls, bits: int, *, with_values: bool = False) -> Self:
        counts, (firsts, seconds, values) = np.zeros(1 << bits, np.uint32), np.zeros((3, 1 << bits), np.uint64)
        return cls(bits, counts, firsts, seconds, values if with_values else None)

    def add(self, first: U64Array, second: U64Array, values: U64Array | None = None) -> None:
        """Add keys, given their first and second hashes, and the value hashes of their rows.

        `values`: needed if there are `value_sums`; otherwise ignored.
        """
        buckets = bucket_of(first, self.bits)
        np.add.at(self.counts, buckets, np.uint32(1))
        np.add.at(self.first_sums, buckets, first)
        np.add.at(self.second_sums, buckets, second)
        if self.value_sums is not None and values is not None:
            np.add.at(self.value_sums, buckets, values)

    def add_all(self, other: BucketFingerprints) -> None:
        """Add the keys of `other`, which has as many buckets."""
        self.counts += other.counts
        self.first_sums += other.first_sums
        self.second_sums += other.second_sums
        if self.value_sums is not None:
            assert other.value_sums is not None
            self.value_sums += other.value_sums

    def remove(self, first: U64Array, second: U64Array, values: U64Array | None = None) -> None:
        """Remove keys, given their hashes as in `add`. Without `values`, `value_sums` becomes None."""
        buckets = bucket_of(first, self.bits)
        if self.value_sums is not None and values is not None:
            np.subtract.at(self.value_sums, buckets, values)
        else:
            self.value_sums = None
        np.subtract.at(self.counts, buckets, np.uint32(1))
        np.subtract.at(self.first_sums, buckets, first)
        np.subtract.at(self.second_sums, buckets, second)

    def coarsened(self, bits: int) -> BucketFingerprints:
        """The same keys in `2**bits` buckets: this object if it has as many. `bits` must be at most its own."""
        if bits == self.bits:
            return self
        shape = (1 << bits, -1)
        return BucketFingerprints(
            bits,
            self.counts.reshape(shape).sum(axis=1, dtype=np.uint32),
            self.first_sums.reshape(shape).sum(axis=1, dtype=np.uint64),
            self.second_sums.reshape(shape).sum(axis=1, dtype=np.uint64),
            None if self.value_sums is None else self.value_sums.reshape(shape).sum(axis=1, dtype=np.uint64),
        )

    def differs(self, other: BucketFingerprints) -> BoolArray:
        """For each bucket whether the keys differ. Both must have the same number of buckets."""
        differs: BoolArray = (
            (self.counts != other.counts)
            | (self.first_sums != other.first_sums)
            | (self.second_sums != other.second_sums)
        )
        return differs

    def values_differ(self, other: BucketFingerprints) -> BoolArray | None:
        """For each bucket whether the sums of value hashes differ; None if either object has none."""
        if self.value_sums is None or other.value_sums is None:
            return None
        return np.asarray(self.value_sums != other.value_sums)

    @property
    def rows(self) -> int:
        return int(self.counts.sum(dtype=np.uint64))

    def digest(self) -> str:
        """Return text that identifies the key set, whatever the number of buckets: count and both sums, in hex."""
        first = int(self.first_sums.sum(dtype=np.uint64))
        second = int(self.second_sums.sum(dtype=np.uint64))
        return f"{self.rows:x}-{first:016x}{second:016x}"

    def values_digest(self) -> str | None:
        """Return text that identifies the rows' values: the sum of all value hashes in hex; None without value sums."""
        return None if self.value_sums is None else f"{int(self.value_sums.sum(dtype=np.uint64)):016x}"
