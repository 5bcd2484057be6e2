"""Keys that a delivery holds more than once, found exactly without comparing it to anything.

Equal keys have equal hashes: where no hash repeats, no key does. Only keys whose hash repeats are compared themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dedup_clone.contract.table import Column
from dedup_spark.adopt.key_words import pack
from dedup_spark.adopt.side import Side, in_buckets
from dedup_spark.adopt.slices import Slice
from dedup_spark.adopt.ties import Ties, among, repeated_in, settle_ties


def find_ties(side: Side, columns: tuple[Column, ...], slices: list[Slice], bits: int) -> Iterator[Ties]:
    """Slice by slice, of all rows; only those of keys that occur more than once are among `staying`."""
    for part in slices:
        hashes = side.first_hashes(in_buckets(part.is_open(bits), bits))
        hashes.sort()  # in place: they may take a quarter of a worker's memory
        repeated = repeated_in(hashes)
        if len(repeated):
            suspects = side.pick(among(repeated), with_others=True)
            (words,) = pack(columns, [suspects.values]).parts
            yield settle_ties(side, suspects, words, repeated_in(np.sort(words)))
