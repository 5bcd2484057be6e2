"""Writes each row of an Arrow batch as its canonical text, which `warehouse/row_text_sql.py` defines and makes in SQL.

Files may have narrower types than BigQuery (INT32, FLOAT, milliseconds, short decimals). Each of their values has the
text of the value that BigQuery loads from it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode, TableContract

_TEXT = pa.large_string()
_HEX_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


def row_texts(table: TableContract, batch: pa.RecordBatch) -> pa.LargeStringArray:
    """The text of each row, never NULL. Raises KeyError when the batch lacks a column."""
    pieces: list[pa.Array | pa.Scalar] = []
    for column in table.columns:
        values = batch.column(column.name)
        if column.fields or column.mode is ColumnMode.REPEATED:
            pieces.append(_value_texts(column, values))
        else:  # concatenated below: `_value_texts` would make one more copy of the column
            pieces += [_scalar_texts(column, values), _literal(";")]
    return _concat(*pieces)


def _literal(content: str) -> pa.Scalar:
    """A text that is the same for all rows."""
    return pa.scalar(content, _TEXT)


def _concat(*pieces: pa.Array | pa.Scalar) -> pa.LargeStringArray:
    """The pieces of each row concatenated; NULL becomes `n`."""
    return pc.binary_join_element_wise(*pieces, _literal(""), null_handling="replace", null_replacement="n")


def _value_texts(column: Column, values: pa.Array) -> pa.LargeStringArray:
    if column.mode is ColumnMode.REPEATED:
        return _array_texts(column, values)
    if column.fields:
        names = [field.name for field in values.type]
        fields = (_value_texts(f, pc.struct_field(values, [names.index(f.name)])) for f in column.fields)
        return pc.if_else(values.is_valid(), _concat(_literal("("), *fields, _literal(")")), _literal("n;"))
    return _concat(_scalar_texts(column, values), _literal(";"))


def _scalar_texts(column: Column, values: pa.Array) -> pa.Array:
    """The text of each value, NULL for NULL."""
    return _TEXTS_BY_TYPE[column.type](values)


def _array_texts(column: Column, values: pa.Array) -> pa.LargeStringArray:
    element_column = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
    elements = _value_texts(element_column, values.flatten())  # excludes elements of NULL lists
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), elements)
    return _concat(lengths.cast(_TEXT), _literal("["), pc.binary_join(lists, _literal("")), _literal("]"))


def _integer(values: pa.Array) -> pa.Array:
    """Digits of integers; `true` or `false` of booleans."""
    return values.cast(_TEXT)


def _date(values: pa.Array) -> pa.Array:
    """Days since 1970."""
    return values.cast(pa.date32()).cast(pa.int32()).cast(_TEXT)


def _timestamp(values: pa.Array) -> pa.Array:
    """Microseconds since 1970."""
    return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(_TEXT)


def _float(values: pa.Array) -> pa.Array:
    """Seventeen digits, which distinguish every number from its neighbours; `0` for both zeros."""
    numbers = values.cast(pa.float64()).to_pylist()
    return pa.array([None if n is None else "0" if n == 0 else f"{n:.16e}" for n in numbers], _TEXT)


def _numeric(values: pa.Array) -> pa.Array:
    """Digits without trailing zeros of the fraction, from the unscaled integer, which Arrow writes without exponent."""
    scale = values.type.scale
    wide = values.cast(pa.decimal128(38, scale))
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(wide), wide.buffers(), offset=wide.offset)
    sign = pc.if_else(pc.less(unscaled, pa.scalar(0, pa.decimal128(38, 0))), _literal("-"), _literal(""))
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled.cast(_TEXT), characters="-"), width=scale + 1, padding="0")
    if scale == 0:
        return pc.binary_join_element_wise(sign, digits, _literal(""))
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    fraction = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, -scale), characters="0")
    point = pc.if_else(pc.equal(fraction, ""), _literal(""), _literal("."))
    return pc.binary_join_element_wise(sign, whole, point, fraction, _literal(""))


def _string(values: pa.Array) -> pa.Array:
    """The number of bytes, a colon, the text."""
    text = values.cast(_TEXT)
    return pc.binary_join_element_wise(pc.binary_length(text).cast(_TEXT), text, _literal(":"))


def _bytes(values: pa.Array) -> pa.Array:
    """Two hexadecimal digits per byte."""
    wide = values.cast(pa.large_binary())
    _, offsets, content = wide.buffers()
    bounds = (
        np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1] if len(wide) else np.zeros(1, int)
    )
    data = np.empty(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    digits = pa.py_buffer(_HEX_DIGITS[data].tobytes())
    hex_offsets = pa.py_buffer(((bounds - bounds[0]) * 2).astype(np.int64).tobytes())
    text = pa.Array.from_buffers(_TEXT, len(wide), [None, hex_offsets, digits])
    return pc.if_else(wide.is_valid(), text, pa.scalar(None, _TEXT))


_TEXTS_BY_TYPE: dict[str, Callable[[pa.Array], pa.Array]] = {
    "BOOL": _integer,
    "BYTES": _bytes,
    "DATE": _date,
    "DATETIME": _timestamp,
    "FLOAT64": _float,
    "INT64": _integer,
    "NUMERIC": _numeric,
    "STRING": _string,
    "TIMESTAMP": _timestamp,
}
