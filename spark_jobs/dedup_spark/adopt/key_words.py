"""Keys as one machine word each, exactly: equal words are equal keys, for keys of any type.

Numbers take as many bits as their range needs; texts, NUMERIC and ranges that do not fit take the rank of the value
among all that are compared. Words serve one comparison only and are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.fingerprints.key_columns import Words, is_number, numbers

# One bit of a machine word is left to the comparison, for the side that a key comes from.
_WORD_BITS = 63


@dataclass(frozen=True)
class PackedKeys:
    """Words of each part, in its rows' order. `ranked` when a column went in by rank and not by its value."""

    parts: tuple[Words, ...]
    ranked: bool


def pack(columns: tuple[Column, ...], parts: Sequence[Sequence[pa.ChunkedArray]]) -> PackedKeys:
    """`parts` hold the declared key columns of the rows to compare, part by part."""
    cuts = np.cumsum([len(part[0]) for part in parts])[:-1]
    words, bits, ranked = np.zeros(sum(len(part[0]) for part in parts), dtype=np.uint64), 0, False
    for number, column in enumerate(columns):
        codes, width, by_rank = _codes(column, [part[number] for part in parts])
        if bits + width > _WORD_BITS:
            words, bits, ranked = *_ranks(words), True
        if bits + width > _WORD_BITS:
            codes, width = _ranks(codes)
        words = (words << np.uint64(width)) | codes
        bits, ranked = bits + width, ranked or by_rank
    return PackedKeys(tuple(np.split(words, cuts)), ranked)


def _codes(column: Column, parts: Sequence[pa.ChunkedArray]) -> tuple[Words, int, bool]:
    """Numbers from 0 that tell the values apart, how many bits they need, and whether they are ranks."""
    if is_number(column):
        values = np.concatenate([numbers(column, chunk) for part in parts for chunk in part.chunks] or [_NOTHING])
        if not len(values):
            return values.view(np.uint64), 0, False
        least, greatest = int(values.min()), int(values.max())
        # Differences wrap into the unsigned range, so that the widest range is right, too.
        return values.view(np.uint64) - np.uint64(least & 0xFFFFFFFFFFFFFFFF), (greatest - least).bit_length(), False
    chunks = [chunk for part in parts for chunk in part.chunks]
    if not chunks:
        return _NOTHING.view(np.uint64), 0, True
    encoded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.uint64)
    return codes, max(len(encoded.chunk(0).dictionary) - 1, 0).bit_length(), True


def _ranks(values: Words) -> tuple[Words, int]:
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.astype(np.uint64), max(len(distinct) - 1, 0).bit_length()


_NOTHING: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
