"""A hash of a row's values, bound to its key: rows of one key with equal values have equal hashes.

Equal means what the contract means: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0; arrays and structs are equal
element by element and field by field. Only counts rest on these hashes, never the choice of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.column_types import STRUCT
from dedup_spark.fingerprints.hashing import SEED, HashChain, blocks, mix_texts
from dedup_spark.fingerprints.key_columns import Words, fixed_words, is_text

# Apart from the numbers of the keys' hashes.
_ROWS, _ELEMENTS = 3, 4


@dataclass(frozen=True)
class ValueHasher:
    """Hashes the given value columns of rows, as declared."""

    columns: tuple[Column, ...]

    def hash(self, keys: Words, values: Sequence[pa.Array]) -> Words:
        """`keys` are the rows' first hashes."""
        hashes = keys.copy()
        for rows in blocks(len(hashes)):
            chain = HashChain(hashes[rows], SEED, _ROWS, begun=True)
            for column, array in zip(self.columns, values, strict=True):
                _mix(chain, column, array[rows])
            chain.finish()
        return hashes


def _mix(chain: HashChain, column: Column, array: pa.Array) -> None:
    """NULL as any fixed value, and its rows marked."""
    if column.mode is ColumnMode.REPEATED:
        _mix_elements(chain, replace(column, mode=ColumnMode.NULLABLE), array)
    elif column.type == STRUCT:
        for field in column.fields:
            _mix(chain, field, pc.struct_field(array, field.name))
    elif is_text(column):
        mix_texts([chain], pc.fill_null(array, b"" if column.type == "BYTES" else ""))
    elif column.type == "FLOAT64":
        chain.mix(_float_words(array))
    else:
        for words in fixed_words(column, _without_nulls(array)):
            chain.mix(words)
    if array.null_count:
        chain.mark(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)))


def _mix_elements(chain: HashChain, element: Column, array: pa.Array) -> None:
    """Elements hash with their places; a row takes the sum of its elements' hashes."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    chain.mix(lengths.view(np.uint64))
    elements = array.flatten()
    sums = np.zeros(len(lengths), dtype=np.uint64)
    if len(elements):
        starts = np.cumsum(lengths) - lengths
        hashes = np.empty(len(elements), dtype=np.uint64)
        inner = HashChain(hashes, SEED, _ELEMENTS)
        inner.mix((np.arange(len(elements)) - np.repeat(starts, lengths)).view(np.uint64))
        _mix(inner, element, elements)
        inner.finish()
        np.add.at(sums, np.repeat(np.arange(len(lengths)), lengths), hashes)
    chain.mix(sums)


def _float_words(array: pa.Array) -> Words:
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) + 0.0  # turns -0.0 into 0.0
    unordered = np.isnan(numbers)
    if unordered.any():
        numbers[unordered] = np.nan
    return np.asarray(numbers, dtype=np.float64).view(np.uint64)


def _without_nulls(array: pa.Array) -> pa.Array:
    if not array.null_count:
        return array
    if pa.types.is_decimal(array.type):
        return pc.fill_null(array, pa.scalar(0, pa.int64()).cast(array.type))
    if pa.types.is_boolean(array.type):
        return pc.fill_null(array, False)
    return pc.fill_null(
        array,
        pa.scalar(0, pa.int64()).cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).cast(array.type),
    )
