"""Finds a table's key columns, and converts columns of keys or values to 64-bit words, which are hashed.

Values must have the declared type (see `as_declared`), so that all files give equal words. A column of fixed width has
one word for each row (NUMERIC two). STRING and BYTES are hashed first: see texts.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column, TableContract
from dedup_spark.arrays import I64Array, U64Array
from dedup_spark.arrow_cast import cast_array, is_encoded
from dedup_spark.column_types import arrow_type

# Types whose values compare as one signed 64-bit number.
_NUMBERS = {"BOOL", "DATE", "DATETIME", "INT64", "TIMESTAMP"}
_TEXTS = {"BYTES", "STRING"}


def key_columns(table: TableContract) -> tuple[Column, ...]:
    """The key columns that identify a row within its date."""
    return tuple(table.column(name) for name in table.keys_of_date)


def as_declared(column: Column, values: pa.Array) -> pa.Array:
    """The values cast to the declared type, for example from a narrower integer. Encoded texts stay encoded."""
    declared = arrow_type(column)
    return values if is_encoded(values) and values.type.value_type == declared else cast_array(values, declared)


def is_number(column: Column) -> bool:
    return column.type in _NUMBERS


def is_text(column: Column) -> bool:
    return column.type in _TEXTS


def numbers(column: Column, values: pa.Array) -> I64Array:
    """The values as signed numbers. `column` must be one for which `is_number` returns True."""
    if column.type == "INT64":
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)
    if column.type == "BOOL":
        values = values.cast(pa.uint8())
    elif column.type == "DATE":
        values = values.cast(pa.int32())
    return np.asarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def fixed_words(column: Column, values: pa.Array) -> Sequence[U64Array]:
    """The words of a column of fixed width: one array, or two for NUMERIC, whose values have 128 bits.

    FLOAT64, which cannot be a key, is converted in value_hashing.py: equal numbers may have different bits.
    """
    if is_number(column):
        return [numbers(column, values).view(np.uint64)]
    raw = np.frombuffer(values.buffers()[1], dtype="<u8")
    pairs = raw[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    return [np.ascontiguousarray(pairs[:, 0], dtype=np.uint64), np.ascontiguousarray(pairs[:, 1], dtype=np.uint64)]
