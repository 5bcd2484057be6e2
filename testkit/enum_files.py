"""Writes Parquet files with a column of ENUM, which pyarrow cannot write."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


def enum_file(rows: pa.Table, column: str) -> bytes:
    """The content of a Parquet file with these rows, whose text column `column` is annotated ENUM in the footer."""
    content = io.BytesIO()
    pq.write_table(rows, content, store_schema=False)
    # In Thrift's compact protocol: the column's name, then its converted type and the beginning of its logical type.
    name = b"\x18" + bytes([len(column)]) + column.encode()
    as_text, as_enum = name + b"\x25\x00\x4c\x1c", name + b"\x25\x08\x4c\x4c"
    assert content.getvalue().count(as_text) == 1
    return content.getvalue().replace(as_text, as_enum)
