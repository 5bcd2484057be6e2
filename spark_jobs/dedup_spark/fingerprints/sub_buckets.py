"""Parts of buckets, and in which of them two sets of keys differ: so fewer keys of a differing bucket are compared.

A sub-bucket's sum has only 32 bits, so it is no proof that the keys are the same. What remains of a bucket is therefore
checked against the bucket's fingerprints once more (`BucketSelection.unexplained`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup_spark import storage
from dedup_spark.arrays import BoolArray, U64Array
from dedup_spark.fingerprints import buckets

_EXTRA_BITS = 5
# The extra bits where there are most buckets (MAX_BITS): the sums take 128 MB, and the flags that differ 32 MB.
_MIN_EXTRA_BITS = 3


def sub_bucket_bits(bits: int) -> int:
    """Bits of a sub-bucket number where buckets have `bits`."""
    return min(bits + _EXTRA_BITS, buckets.MAX_BITS + _MIN_EXTRA_BITS)


class SubBucketSums:
    """Sums of first hashes by sub-bucket, modulo 2^32: those of the keys added, less those of the keys removed."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._sums: npt.NDArray[np.uint32] = np.zeros(1 << bits, np.uint32)

    def add(self, first_hashes: U64Array) -> None:
        np.add.at(self._sums, buckets.bucket_of(first_hashes, self.bits), first_hashes.astype(np.uint32))

    def remove(self, first_hashes: U64Array) -> None:
        np.subtract.at(self._sums, buckets.bucket_of(first_hashes, self.bits), first_hashes.astype(np.uint32))

    def save(self, uri: str) -> None:
        with storage.open_output(uri) as stream:
            stream.write(self._sums.data.cast("B"))

    def add_saved(self, uri: str, *, removed: bool) -> None:
        """Add, or remove, the keys whose sums `save` wrote for the same number of sub-buckets."""
        with storage.open_input(uri) as stream:
            sums = np.frombuffer(stream.read(), np.uint32)
        (np.subtract if removed else np.add)(self._sums, sums, out=self._sums)

    def differing(self) -> SubBuckets:
        """The sub-buckets whose removed keys are not those that were added."""
        return SubBuckets(self.bits, np.asarray(self._sums != 0))


class SubBuckets:
    """Some of `2**bits` sub-buckets."""

    def __init__(self, bits: int, chosen: BoolArray) -> None:
        self._bits, self._chosen = bits, chosen

    def contain(self, first_hashes: U64Array) -> BoolArray:
        """For each key whether its sub-bucket is one of these."""
        return self._chosen[buckets.bucket_of(first_hashes, self._bits)]

    def shares(self, bits: int) -> npt.NDArray[np.float32]:
        """For each of `2**bits` buckets the share of its sub-buckets (0 to 1) that is among these."""
        return np.asarray(self._chosen.reshape(1 << bits, -1).mean(axis=1, dtype=np.float32))
