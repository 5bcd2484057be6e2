"""The canonical text of a file's rows, the same as `warehouse/row_text.py` has BigQuery make of target's.

Works on whole Arrow arrays. Types narrower than BigQuery's (INT32, FLOAT, milliseconds, short decimals) give the text
of the value that BigQuery loads.
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
    """The text of each row, never NULL. KeyError when the batch lacks a column."""
    pieces: list[pa.Array | pa.Scalar] = []
    for column in table.columns:
        values = batch.column(column.name)
        if column.fields or column.mode is ColumnMode.REPEATED:
            pieces.append(_value(column, values))
        else:  # ended without an array of its own, which would be one more copy of every column
            pieces += [_scalar(column, values), _text(";")]
    return _joined(*pieces)


def _text(content: str) -> pa.Scalar:
    return pa.scalar(content, _TEXT)


def _joined(*pieces: pa.Array | pa.Scalar) -> pa.LargeStringArray:
    """One after the other; NULL is `n`."""
    return pc.binary_join_element_wise(*pieces, _text(""), null_handling="replace", null_replacement="n")


def _value(column: Column, values: pa.Array) -> pa.LargeStringArray:
    if column.mode is ColumnMode.REPEATED:
        return _array(column, values)
    if column.fields:
        names = [field.name for field in values.type]
        fields = (_value(f, pc.struct_field(values, [names.index(f.name)])) for f in column.fields)
        return pc.if_else(values.is_valid(), _joined(_text("("), *fields, _text(")")), _text("n;"))
    return _joined(_scalar(column, values), _text(";"))


def _scalar(column: Column, values: pa.Array) -> pa.Array:
    """NULL for NULL. Files say whether their writer had a column as a dictionary; Arrow then reads it as one."""
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    return _SCALARS[column.type](plain)


def _array(column: Column, values: pa.Array) -> pa.LargeStringArray:
    one = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
    elements = _value(one, values.flatten())  # without those below a NULL
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), elements)
    return _joined(lengths.cast(_TEXT), _text("["), pc.binary_join(lists, _text("")), _text("]"))


def _integer(values: pa.Array) -> pa.Array:
    return values.cast(_TEXT)


def _date(values: pa.Array) -> pa.Array:
    return values.cast(pa.date32()).cast(pa.int32()).cast(_TEXT)


def _moment(values: pa.Array) -> pa.Array:
    return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(_TEXT)


def _float(values: pa.Array) -> pa.Array:
    numbers = values.cast(pa.float64()).to_pylist()
    return pa.array([None if n is None else "0" if n == 0 else f"{n:.16e}" for n in numbers], _TEXT)


def _numeric(values: pa.Array) -> pa.Array:
    """As few digits as tell the number. Made from the whole number behind it, which Arrow writes without exponent."""
    scale = values.type.scale
    wide = values.cast(pa.decimal128(38, scale))
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(wide), wide.buffers(), offset=wide.offset)
    sign = pc.if_else(pc.less(unscaled, pa.scalar(0, pa.decimal128(38, 0))), _text("-"), _text(""))
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled.cast(_TEXT), characters="-"), width=scale + 1, padding="0")
    if scale == 0:
        return pc.binary_join_element_wise(sign, digits, _text(""))
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    fraction = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, -scale), characters="0")
    point = pc.if_else(pc.equal(fraction, ""), _text(""), _text("."))
    return pc.binary_join_element_wise(sign, whole, point, fraction, _text(""))


def _string(values: pa.Array) -> pa.Array:
    text = values.cast(_TEXT)
    return pc.binary_join_element_wise(pc.binary_length(text).cast(_TEXT), text, _text(":"))


def _bytes(values: pa.Array) -> pa.Array:
    """Two hexadecimal digits a byte."""
    wide = values.cast(pa.large_binary())
    _, offsets, content = wide.buffers()
    ends = (
        np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1] if len(wide) else np.zeros(1, int)
    )
    held = np.empty(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    digits = pa.py_buffer(_HEX_DIGITS[held].tobytes())
    moved = pa.py_buffer(((ends - ends[0]) * 2).astype(np.int64).tobytes())
    text = pa.Array.from_buffers(_TEXT, len(wide), [None, moved, digits])
    return pc.if_else(wide.is_valid(), text, pa.scalar(None, _TEXT))


_SCALARS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "BOOL": _integer,
    "BYTES": _bytes,
    "DATE": _date,
    "DATETIME": _moment,
    "FLOAT64": _float,
    "INT64": _integer,
    "NUMERIC": _numeric,
    "STRING": _string,
    "TIMESTAMP": _moment,
}
