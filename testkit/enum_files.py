"""Writes Parquet files with a column of ENUM, which pyarrow cannot write."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


def enum_file(rows: pa.Table, column: str) -> bytes:
    """A Parquet file whose text column `column` is annotated ENUM instead: the annotation in the footer is replaced."""
    content = io.BytesIO()
    pq.write_table(rows, content, store_schema=False)
    name = b"\x18" + bytes([len(column)]) + column.encode()  # in Thrift's compact form, as the annotations behind it
    text, enum = name + b"\x25\x00\x4c\x1c", name + b"\x25\x08\x4c\x4c"
    assert content.getvalue().count(text) == 1
    return content.getvalue().replace(text, enum)
