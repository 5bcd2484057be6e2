"""Ranges of buckets that are compared one after the other, so that memory does not grow with a date's differences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import BoolArray


class BucketRange(NamedTuple):
    """Buckets from `start` to `stop`, without `stop`."""

    start: int
    stop: int

    def mask(self, bits: int) -> BoolArray:
        """An array that says for each of `2**bits` buckets whether the bucket is in the range."""
        mask = np.zeros(1 << bits, dtype=bool)
        mask[self.start : self.stop] = True
        return mask


# The range for rows that are not divided into buckets.
EVERYTHING = BucketRange(0, 1)


def split_buckets(rows: npt.NDArray[Any], limit: int) -> list[BucketRange]:
    """Ranges with about `limit` rows each. `rows` is the number of rows by bucket; empty buckets may be in no range."""
    total = np.cumsum(rows, dtype=np.float64)
    if not len(total) or total[-1] <= 0:
        return []
    count = max(1, int(np.ceil(total[-1] / limit)))
    ends = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
    edges = np.unique([0, *ends, len(rows)])
    return [BucketRange(int(start), int(stop)) for start, stop in pairwise(edges)]
