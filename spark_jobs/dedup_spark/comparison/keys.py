"""Compares keys: packs them into one 64-bit integer each, finds repeated and given ones, and aligns rows by them.

Packed keys are equal if and only if the keys are. A number takes as many bits as the range of the compared values
needs. Texts and NUMERIC, and numbers that do not fit, are packed by rank: the position of a value among the distinct
compared values. So packed keys can be compared only with keys that were packed in the same call, and are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import ABSENT, EMPTY_I64, EMPTY_U64, NO_INDICES, Indices, U64Array
from dedup_spark.comparison.selected_rows import RowSelector, SelectedRows
from dedup_spark.fingerprints.key_columns import is_number, numbers

# One bit of 64 is left free, so that no number is shifted by all bits of a word.
_KEY_BITS = 63
# With sixteen slots for each key, the bitmap takes about one in sixteen other keys for one of its own. It does
# not grow beyond 2^26 slots: more keys have fewer slots each.
_SLOTS_PER_KEY, _MIN_BITMAP_BITS, _MAX_BITMAP_BITS = 16, 16, 26
# An odd number (2^64 divided by the golden ratio): the product's highest bits spread keys evenly over the slots.
_BITMAP_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def align(columns: tuple[Column, ...], sources: Sequence[SelectedRows]) -> Indices:
    """Return one line for each source, with a column for each key that some source has.

    A line has the index of the source's row with the key, or ABSENT. `columns`: the key columns. Each source must have
    each key at most once.
    """
    lists = pack_keys(columns, [rows.key_columns for rows in sources])
    distinct, lines = np.unique(np.concatenate([EMPTY_U64, *lists]), return_inverse=True)
    aligned = np.full((len(sources), len(distinct)), ABSENT, np.intp)
    start = 0
    for line, keys in zip(aligned, lists, strict=True):
        line[lines[start : start + len(keys)]] = np.arange(len(keys))
        start += len(keys)
    return aligned


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


def repeated_in(ordered: U64Array) -> U64Array:
    """Return the distinct values that occur more than once in a sorted array."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def with_codes(codes: U64Array) -> RowSelector:
    """Return a function that finds, in lists of codes or packed keys, those that are among `codes`, which are sorted.

    It returns their indices, ascending. A bitmap is read first, because each step of the exact search costs a cache
    miss.
    """
    bits = min(max((len(codes) * _SLOTS_PER_KEY).bit_length(), _MIN_BITMAP_BITS), _MAX_BITMAP_BITS)
    bitmap = np.zeros(1 << bits, dtype=bool)
    bitmap[_bitmap_slot(codes, bits)] = True

    def select(found: U64Array) -> Indices:
        if not len(codes):
            return NO_INDICES
        passed = np.flatnonzero(bitmap[_bitmap_slot(found, bits)])
        nearest = np.minimum(np.searchsorted(codes, found[passed]), len(codes) - 1)
        return np.asarray(passed[codes[nearest] == found[passed]], dtype=np.intp)

    return select


def _bitmap_slot(keys: U64Array, bits: int) -> Indices:
    slot: Indices = ((keys * _BITMAP_FACTOR) >> np.uint64(64 - bits)).view(np.intp)
    return slot
