"""Hashes each row's values together with its key: rows of one key have equal hashes if their values are equal.

What is equal is defined by the data contract: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, and a NULL array
equals an empty one; arrays are compared element by element, structs field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrays import U64Array
from dedup_spark.arrow_cast import is_encoded
from dedup_spark.column_types import STRUCT
from dedup_spark.fingerprints.chains import StrongChain, blocks
from dedup_spark.fingerprints.key_columns import fixed_words, is_text
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.texts import text_hashes


@dataclass(frozen=True)
class ValueHasher:
    """Hashes the values of rows in `columns`, whose arrays must have the declared types."""

    columns: tuple[Column, ...]
    seed: Seed

    def hash(self, first_hashes: U64Array, values: Sequence[pa.Array]) -> U64Array:
        """Return one hash for each row.

        `first_hashes`: the first of the two hashes of each row's key. `values`: the arrays of `columns`.
        """
        hashes = first_hashes.copy()
        # A dictionary is looked up once, not for each block.
        encoded = {number: _text_words(array, self.seed) for number, array in enumerate(values) if is_encoded(array)}
        for rows in blocks(len(hashes)):
            # The chain starts from the keys' hashes, and overwrites them.
            chain = StrongChain(hashes[rows], self.seed, "row", continues=True)
            for number, (column, array) in enumerate(zip(self.columns, values, strict=True)):
                if number in encoded:
                    chain.mix(encoded[number][rows])
                    _mark_nulls(chain, array[rows])
                else:
                    _mix(chain, self.seed, column, array[rows])
            chain.finish()
        return hashes


def _text_words(array: pa.Array, seed: Seed) -> U64Array:
    (hashes,) = text_hashes(array, seed, (StrongChain,))
    return hashes


def _mix(chain: StrongChain, seed: Seed, column: Column, array: pa.Array) -> None:
    """Mix in a column. NULL is mixed in as a fixed value of the type, and then marked."""
    if column.mode is ColumnMode.REPEATED:
        _mix_elements(chain, seed, replace(column, mode=ColumnMode.NULLABLE), array)
    elif column.type == STRUCT:
        for field in column.fields:
            _mix(chain, seed, field, pc.struct_field(array, field.name))
    elif is_text(column):
        chain.mix(_text_words(array, seed))
    elif column.type == "FLOAT64":
        chain.mix(_float_words(array))
    else:
        for words in fixed_words(column, without_nulls(array)):
            chain.mix(words)
    if column.mode is not ColumnMode.REPEATED:
        _mark_nulls(chain, array)


def _mark_nulls(chain: StrongChain, array: pa.Array) -> None:
    if array.null_count:
        chain.mark_null(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)))


def _mix_elements(chain: StrongChain, seed: Seed, element: Column, array: pa.Array) -> None:
    """Mix in, for each array, its length and the sum of its elements' hashes. Each hash includes the position."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    chain.mix(lengths.view(np.uint64))
    elements = array.flatten()
    sums = np.zeros(len(lengths), dtype=np.uint64)
    if len(elements):
        starts = np.cumsum(lengths) - lengths
        hashes = np.empty(len(elements), dtype=np.uint64)
        inner = StrongChain(hashes, seed, "element")
        inner.mix((np.arange(len(elements)) - np.repeat(starts, lengths)).view(np.uint64))
        _mix(inner, seed, element, elements)
        inner.finish()
        np.add.at(sums, np.repeat(np.arange(len(lengths)), lengths), hashes)
    chain.mix(sums)


def _float_words(array: pa.Array) -> U64Array:
    """The bits of each number, the same bits for equal numbers; NULL as 0.0."""
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) + 0.0  # turns -0.0 into 0.0
    is_nan = np.isnan(numbers)
    if is_nan.any():
        numbers[is_nan] = np.nan  # the same bit pattern for every NaN
    return np.asarray(numbers, dtype=np.float64).view(np.uint64)


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with NULL replaced by zero, or by the value that zero stands for in its type."""
    if not array.null_count:
        return array
    if pa.types.is_boolean(array.type):
        return pc.fill_null(array, False)
    zero = pa.scalar(0, pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return pc.fill_null(array, zero.cast(array.type))
