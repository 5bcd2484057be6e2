"""Keys of any type packed into one 64-bit integer each: packed keys are equal exactly where the keys are.

Numbers take as many bits as the range of the compared values needs. Texts, NUMERIC, and numbers that do not fit are
packed by rank, their position among the distinct compared values. Packed keys hold for one comparison and are never
stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import EMPTY_I64, U64Array
from dedup_spark.fingerprints.key_columns import is_number, numbers

# One bit of 64 is left to `diff_keys`, which marks the list that a key comes from.
_KEY_BITS = 63


@dataclass(frozen=True)
class PackedKeys:
    """The packed keys of each list, in its rows' order. `ranked` when a column was packed by rank."""

    parts: tuple[U64Array, ...]
    ranked: bool


def pack_keys(columns: tuple[Column, ...], parts: Sequence[Sequence[pa.ChunkedArray]]) -> PackedKeys:
    """Packs lists of keys that are to be compared with each other. `parts` are the key columns of each list."""
    cuts = np.cumsum([len(part[0]) for part in parts])[:-1]
    packed, bits, ranked = np.zeros(sum(len(part[0]) for part in parts), dtype=np.uint64), 0, False
    for number, column in enumerate(columns):
        codes, width, by_rank = _codes(column, [part[number] for part in parts])
        if bits + width > _KEY_BITS:
            packed, bits, ranked = *_ranks(packed), True
        if bits + width > _KEY_BITS:
            codes, width = _ranks(codes)
        packed = (packed << np.uint64(width)) | codes
        bits, ranked = bits + width, ranked or by_rank
    return PackedKeys(tuple(np.split(packed, cuts)), ranked)


def _codes(column: Column, parts: Sequence[pa.ChunkedArray]) -> tuple[U64Array, int, bool]:
    """A number from 0 for each value of the column, the bits that it needs, and whether the numbers are ranks."""
    chunks = [chunk for part in parts for chunk in part.chunks]
    if is_number(column):
        values = np.concatenate([numbers(column, chunk) for chunk in chunks] or [EMPTY_I64])
        if not len(values):
            return values.view(np.uint64), 0, False
        least, greatest = int(values.min()), int(values.max())
        # The subtraction wraps around in unsigned arithmetic, which is right for the widest range too.
        return values.view(np.uint64) - np.uint64(least & 0xFFFFFFFFFFFFFFFF), (greatest - least).bit_length(), False
    if not chunks:
        return EMPTY_I64.view(np.uint64), 0, True
    encoded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.uint64)
    return codes, max(len(encoded.chunk(0).dictionary) - 1, 0).bit_length(), True


def _ranks(values: U64Array) -> tuple[U64Array, int]:
    """The rank of each value, and the bits that it needs."""
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.astype(np.uint64), max(len(distinct) - 1, 0).bit_length()
