"""Keys that a delivery holds more than once, found exactly without comparing it to anything.

Equal keys have equal hashes: where no hash repeats, no key does. Only keys whose hash repeats are compared themselves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.adopt.comparison import places
from dedup_spark.adopt.key_words import pack
from dedup_spark.adopt.picked import NO_ROWS, Choose, ChosenRows
from dedup_spark.adopt.side import Side, in_buckets
from dedup_spark.adopt.slices import Slice
from dedup_spark.fingerprints.key_columns import Words

Values = tuple[pa.ChunkedArray, ...]


def surplus_keys(side: Side, columns: tuple[Column, ...], slices: list[Slice], bits: int) -> list[Values]:
    """The key columns of all rows but one of each key, slice by slice. Empty when every key occurs once."""
    found = []
    for part in slices:
        hashes = side.first_hashes(in_buckets(part.is_open(bits), bits))
        hashes.sort()
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(repeated):
            suspects = side.pick(among(repeated))
            (words,) = pack(columns, [suspects.values]).parts
            extra = repetitions(words)
            if len(extra):
                found.append(tuple(values.take(pa.array(extra)) for values in suspects.values))
    return found


def repetitions(words: Words) -> npt.NDArray[np.intp]:
    """Places of all but one of each word."""
    order = np.argsort(words, kind="stable")
    again = np.flatnonzero(words[order][1:] == words[order][:-1]) + 1
    return order[again]


def among(wanted: Words) -> Choose:
    """Chooses rows whose first hash is one of `wanted`, which are sorted."""
    return lambda first: ChosenRows(places(first, wanted), NO_ROWS)
