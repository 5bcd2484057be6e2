"""Ranges of buckets that are compared at a time, so that memory does not grow with a date's differences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Slice:
    """Buckets `start` until `stop`."""

    start: int
    stop: int

    def is_open(self, bits: int) -> npt.NDArray[np.bool_]:
        return self.of(np.ones(1 << bits, dtype=bool))

    def of(self, is_open: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The open buckets of this range alone."""
        mine = np.zeros_like(is_open)
        mine[self.start : self.stop] = is_open[self.start : self.stop]
        return mine


def slices_of(rows: npt.NDArray[Any], limit: int) -> list[Slice]:
    """`rows` to compare, by bucket. Each slice has about `limit` rows; buckets without rows may be in none."""
    total = np.cumsum(rows, dtype=np.float64)
    if not len(total) or total[-1] <= 0:
        return []
    count = max(1, int(np.ceil(total[-1] / limit)))
    ends = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
    edges = np.unique([0, *ends, len(rows)])
    return [Slice(int(start), int(stop)) for start, stop in pairwise(edges)]


def too_many(rows: float) -> str:
    """The obstacle where comparing so many rows would take too many slices."""
    return f"about [{int(rows)}] rows may differ, more than are compared without a shuffle"
