"""Finds repeated keys, and rows of given keys, in long lists of numbers: codes of keys, or packed keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from dedup_spark.arrays import NO_INDICES, BoolArray, Indices, U64Array

# With sixteen slots for each key, the bitmap takes about one in sixteen other keys for one of its own. It does
# not grow beyond 2^26 slots: more keys have fewer slots each.
_SLOTS_PER_KEY, _MIN_BITMAP_BITS, _MAX_BITMAP_BITS = 16, 16, 26
# An odd number (2^64 divided by the golden ratio): the product's highest bits spread keys evenly over the slots.
_BITMAP_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def repeated_in(ordered: U64Array) -> U64Array:
    """Return the distinct values that occur more than once in a sorted array."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


@dataclass(frozen=True)
class KeySet:
    """Finds which keys of long lists are in a set.

    `keys`: the set, sorted. `bitmap`: has `2**bits` slots; a key whose slot is false is not in the set. It is read
    first, because each step of the exact search costs a cache miss.
    """

    keys: U64Array
    bits: int
    bitmap: BoolArray

    @classmethod
    def from_sorted(cls, keys: U64Array) -> Self:
        """Make the set of these keys, which are sorted."""
        bits = min(max((len(keys) * _SLOTS_PER_KEY).bit_length(), _MIN_BITMAP_BITS), _MAX_BITMAP_BITS)
        bitmap = np.zeros(1 << bits, dtype=bool)
        bitmap[_bitmap_slot(keys, bits)] = True
        return cls(keys, bits, bitmap)

    def indices_in(self, keys: U64Array) -> Indices:
        """Ascending indices of those `keys` that are in the set."""
        if not len(self.keys):
            return NO_INDICES
        passed = np.flatnonzero(self.bitmap[_bitmap_slot(keys, self.bits)])
        found = np.minimum(np.searchsorted(self.keys, keys[passed]), len(self.keys) - 1)
        return np.asarray(passed[self.keys[found] == keys[passed]], dtype=np.intp)


def indices_of(keys: U64Array, searched: U64Array) -> Indices:
    """Ascending indices of those `keys` that are among `searched`, which are sorted."""
    return KeySet.from_sorted(searched).indices_in(keys) if len(searched) else NO_INDICES


def _bitmap_slot(keys: U64Array, bits: int) -> Indices:
    slot: Indices = ((keys * _BITMAP_FACTOR) >> np.uint64(64 - bits)).view(np.intp)
    return slot
