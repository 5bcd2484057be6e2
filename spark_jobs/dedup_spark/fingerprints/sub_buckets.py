"""Finds the sub-buckets (parts of buckets) in which two sets of keys differ: only keys in these need comparison.

The sum of a sub-bucket has only 32 bits, so equal sums do not prove that the keys are the same. The compared keys are
therefore checked against the fingerprints of their bucket afterwards (`BucketSelection.unexplained`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup_spark import storage
from dedup_spark.arrays import BoolArray, U64Array
from dedup_spark.fingerprints import buckets

# A bucket has 2^5 sub-buckets, or fewer if the total would be more than _MAX_BITS allows.
_EXTRA_BITS = 5
# With this many bits the sums take 128 MB, and the flags of the sub-buckets that differ 32 MB.
_MAX_BITS = buckets.MAX_BITS + 3


def sub_bucket_bits(bits: int, *, has_several_pairs: bool = False) -> int:
    """Return how many bits a sub-bucket number has if a bucket number has `bits`.

    `has_several_pairs`: the newest delivery is compared with several inputs. Then two arrays of sums are in memory at a
    time, so each may have only half as many sub-buckets.
    """
    return min(bits + _EXTRA_BITS, _MAX_BITS - has_several_pairs)


class SubBucketSums:
    """Sums of first hashes by sub-bucket, modulo 2^32: of the keys that were added, minus those that were removed."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._sums: npt.NDArray[np.uint32] = np.zeros(1 << bits, np.uint32)

    def add(self, first_hashes: U64Array) -> None:
        np.add.at(self._sums, buckets.bucket_of(first_hashes, self.bits), first_hashes.astype(np.uint32))

    def remove(self, first_hashes: U64Array) -> None:
        np.subtract.at(self._sums, buckets.bucket_of(first_hashes, self.bits), first_hashes.astype(np.uint32))

    def save(self, uri: str) -> None:
        """Write the sums as an object, for `add_saved` in another process."""
        with storage.open_output(uri) as stream:
            stream.write(self._sums.data.cast("B"))

    def add_saved(self, uri: str, *, removed: bool) -> None:
        """Add, or remove, the keys whose sums `save` wrote for the same number of sub-buckets."""
        with storage.open_input(uri) as stream:
            sums = np.frombuffer(stream.read(), np.uint32)
        (np.subtract if removed else np.add)(self._sums, sums, out=self._sums)

    def copy(self) -> SubBucketSums:
        copied = SubBucketSums(0)
        copied.bits, copied._sums = self.bits, self._sums.copy()
        return copied

    def differing(self) -> SubBuckets:
        """The sub-buckets in which, by their sums, the removed keys are not the added ones."""
        return SubBuckets(self.bits, np.asarray(self._sums != 0))


class SubBuckets:
    """Some of `2**bits` sub-buckets: those for which the array `is_selected` is true."""

    def __init__(self, bits: int, is_selected: BoolArray) -> None:
        self._bits, self._is_selected = bits, is_selected

    def __or__(self, other: SubBuckets) -> SubBuckets:
        return SubBuckets(self._bits, self._is_selected | other._is_selected)

    def contain(self, first_hashes: U64Array) -> BoolArray:
        """For each key whether its sub-bucket is selected."""
        return self._is_selected[buckets.bucket_of(first_hashes, self._bits)]

    def selected_shares(self, bits: int) -> npt.NDArray[np.float32]:
        """For each of `2**bits` buckets the share of its sub-buckets (0 to 1) that are selected."""
        return np.asarray(self._is_selected.reshape(1 << bits, -1).mean(axis=1, dtype=np.float32))
