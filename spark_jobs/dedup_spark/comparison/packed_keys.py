"""Packs keys of any types into one 64-bit integer each: packed keys are equal if and only if the keys are.

A number takes as many bits as the range of the compared values needs. Texts and NUMERIC, and numbers that do not fit,
are packed by rank: the position of a value among the distinct compared values. So packed keys can be compared only with
keys that were packed in the same call, and are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import EMPTY_I64, U64Array
from dedup_spark.fingerprints.key_columns import is_number, numbers

# One bit of 64 is left free, so that no number is shifted by all bits of a word.
_KEY_BITS = 63


def pack_keys(columns: tuple[Column, ...], lists: Sequence[Sequence[pa.ChunkedArray]]) -> list[U64Array]:
    """Pack lists of keys that are to be compared with each other. `lists`: for each list of keys its key columns.

    Return the packed keys of each list, in the order of its rows.
    """
    row_counts = [len(key_columns[0]) for key_columns in lists]
    packed, bits = np.zeros(sum(row_counts), dtype=np.uint64), 0
    for number, column in enumerate(columns):
        codes, width = _codes(column, [key_columns[number] for key_columns in lists])
        if bits + width > _KEY_BITS:
            packed, bits = _ranks(packed)
        if bits + width > _KEY_BITS:
            codes, width = _ranks(codes)
        packed = (packed << np.uint64(width)) | codes
        bits += width
    return list(np.split(packed, np.cumsum(row_counts)[:-1]))


def _codes(column: Column, arrays: Sequence[pa.ChunkedArray]) -> tuple[U64Array, int]:
    """A number from 0 on for each value of the column, and the bits that the numbers need."""
    chunks = [chunk for array in arrays for chunk in array.chunks if len(chunk)]
    if is_number(column):
        values = np.concatenate([numbers(column, chunk) for chunk in chunks] or [EMPTY_I64])
        if not len(values):
            return values.view(np.uint64), 0
        least, greatest = int(values.min()), int(values.max())
        # The subtraction wraps around in unsigned arithmetic, which is right for the widest range too.
        return values.view(np.uint64) - np.uint64(least & 0xFFFFFFFFFFFFFFFF), (greatest - least).bit_length()
    if not chunks:
        return EMPTY_I64.view(np.uint64), 0
    encoded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.uint64)
    return codes, max(len(encoded.chunk(0).dictionary) - 1, 0).bit_length()


def _ranks(values: U64Array) -> tuple[U64Array, int]:
    """The rank of each value, and the bits that it needs."""
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.astype(np.uint64), max(len(distinct) - 1, 0).bit_length()
