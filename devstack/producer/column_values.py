"""Makes values of any column type from numbers.

A number always gives the same value. Different numbers may give equal values, except for the key types that
`key_values` names.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column, ColumnMode

Numbers = np.ndarray  # of type uint64
_FIRST_DAY = 18_262  # 2020-01-01, in days since the epoch
_DAY_COUNT = 2_000
_VALUES_PER_NULL = 50  # on average, in a NULLABLE column
_ARRAY_LENGTHS = 4  # lengths from 0 to 3
_MICROS_A_DAY = 24 * 60 * 60 * 1_000_000


def pseudo_random(numbers: Numbers, salt: int) -> Numbers:
    """For each number a pseudo-random one, which depends on all bits of the number and of `salt` (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(salt + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(column: Column, numbers: Numbers) -> pa.Array:
    """A value of the column for each number. If the column is NULLABLE, one value in _VALUES_PER_NULL is NULL."""
    is_null = None
    if column.mode is ColumnMode.NULLABLE:
        is_null = pseudo_random(numbers, 1) % np.uint64(_VALUES_PER_NULL) == 0
    return _values(column, pseudo_random(numbers, 2), is_null)


def key_values(column: Column, numbers: Numbers) -> pa.Array:
    """A value of a key column for each number, never NULL.

    For INT64, STRING, BYTES and NUMERIC, different numbers always give different values.
    """
    kind = column.type
    if kind in ("STRING", "BYTES"):
        return pa.array([f"{column.name}-{number:08x}" for number in numbers.tolist()]).cast(_ARROW_TYPES[kind])
    if kind in ("INT64", "NUMERIC"):
        return pa.array(numbers.astype(np.int64)).cast(_ARROW_TYPES[kind])
    return _values(column, pseudo_random(numbers, 2), None)


def field(column: Column) -> pa.Field:
    """The column's field in the schema of Parquet files."""
    kind = pa.struct([field(f) for f in column.fields]) if column.type == "STRUCT" else _ARROW_TYPES[column.type]
    if column.mode is ColumnMode.REPEATED:
        kind = pa.list_(pa.field("element", kind))
    return pa.field(column.name, kind, nullable=column.mode is not ColumnMode.REQUIRED)


def _values(column: Column, numbers: Numbers, is_null: np.ndarray | None) -> pa.Array:
    """A value of the column for each number, NULL where `is_null` is true. An array is never NULL."""
    if column.mode is ColumnMode.REPEATED:
        lengths = (pseudo_random(numbers, 3) % np.uint64(_ARRAY_LENGTHS)).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        with np.errstate(over="ignore"):
            element_numbers = pseudo_random(np.repeat(numbers, lengths) + positions.astype(np.uint64), 4)
        element = Column(column.name, column.type, ColumnMode.REQUIRED, column.fields)
        elements = _values(element, element_numbers, None)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=field(column).type)
    if column.type == "STRUCT":
        field_values = [values(f, pseudo_random(numbers, 5 + index)) for index, f in enumerate(column.fields)]
        fields = [field(f) for f in column.fields]
        mask = None if is_null is None else pa.array(is_null)
        return pa.StructArray.from_arrays(field_values, fields=fields, mask=mask)
    return pa.array(_SCALAR_VALUES[column.type](numbers), mask=is_null).cast(_ARROW_TYPES[column.type])


def _below(limit: int) -> Callable[[Numbers], Numbers]:
    """A function that gives each number's remainder modulo `limit`."""
    return lambda numbers: (numbers % np.uint64(limit)).astype(np.int64)


def _words(numbers: Numbers) -> Numbers:
    return np.array([f"word {number % 10_000:04d}" for number in numbers.tolist()], dtype=object)


_ARROW_TYPES: dict[str, pa.DataType] = {
    "BOOL": pa.bool_(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "FLOAT64": pa.float64(),
    "INT64": pa.int64(),
    "NUMERIC": pa.decimal128(38, 9),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def _days(numbers: Numbers) -> Numbers:
    return (_FIRST_DAY + _below(_DAY_COUNT)(numbers)).astype("datetime64[D]")


def _micros(numbers: Numbers) -> Numbers:
    return (_FIRST_DAY * _MICROS_A_DAY + _below(_DAY_COUNT * _MICROS_A_DAY)(numbers)).astype("datetime64[us]")


_SCALAR_VALUES: dict[str, Callable[[Numbers], Numbers]] = {
    "BOOL": lambda numbers: numbers % np.uint64(2) == 0,
    "BYTES": lambda numbers: np.array([number.to_bytes(8, "big") for number in numbers.tolist()], dtype=object),
    "DATE": _days,
    "DATETIME": _micros,
    "FLOAT64": lambda numbers: _below(100_000)(numbers) / 8.0,
    "INT64": _below(1_000),
    "NUMERIC": _below(1_000_000),
    "STRING": _words,
    "TIMESTAMP": _micros,
}
