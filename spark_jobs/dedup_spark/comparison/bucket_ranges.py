"""Divides buckets into ranges, which are compared one after the other, so that memory does not grow with the date."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import BoolArray


class BucketRange(NamedTuple):
    """The buckets with numbers from `start` to `stop - 1`."""

    start: int
    stop: int

    def mask(self, bits: int) -> BoolArray:
        """For each of `2**bits` buckets whether it is in the range."""
        mask = np.zeros(1 << bits, dtype=bool)
        mask[self.start : self.stop] = True
        return mask


# The only range, for a caller that keeps all selected rows together as if there were only one bucket.
EVERYTHING = BucketRange(0, 1)


def split_buckets(row_counts: npt.NDArray[Any], limit: int) -> list[BucketRange]:
    """Divide all buckets into ranges of about `limit` rows each. Without rows the list is empty.

    `row_counts`: the number of rows in each bucket.
    """
    totals = np.cumsum(row_counts, dtype=np.float64)
    if not len(totals) or totals[-1] <= 0:
        return []
    range_count = max(1, int(np.ceil(totals[-1] / limit)))
    ends = np.searchsorted(totals, totals[-1] * np.arange(1, range_count) / range_count) + 1
    edges = np.unique([0, *ends, len(row_counts)])
    return [BucketRange(int(start), int(stop)) for start, stop in pairwise(edges)]
