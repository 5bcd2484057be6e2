"""Searches a number in everything that a stack has written: files, also compressed ones, and Airflow's database."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.stack import postgres
from devstack.stack.layout import Layout


def places_of(value: int, layout: Layout, *, leave_out: Path) -> list[str]:
    """The files of the stack and the tables of Airflow's database that contain the number, without one folder.

    PostgreSQL's own files are left out: what a table does not have any more stays in them until they are vacuumed.
    """
    ignored = (layout.database, layout.run, leave_out)
    files = [
        path
        for path in layout.local.rglob("*")
        if path.is_file() and not any(path.is_relative_to(folder) for folder in ignored)
    ]
    found = [str(path.relative_to(layout.local)) for path in files if contains(_read(path), value)]
    return sorted({*found, *(f"database: {table}" for table in _tables_with(value, layout))})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # deleted meanwhile
        return b""


def contains(content: bytes, value: int) -> bool:
    """Whether the content has the number: as text, as eight bytes, compressed, or in a column of a Parquet file."""
    if str(value).encode() in content or value.to_bytes(8, "little") in content or value.to_bytes(8, "big") in content:
        return True
    if content.startswith(b"PAR1"):
        columns = pq.read_table(io.BytesIO(content)).columns
        return any(pa.types.is_integer(column.type) and value in column.to_pylist() for column in columns)
    for magic, codec in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip")):
        if content.startswith(magic):
            return contains(b"".join(_decompressed(content, codec)), value)
    return False


def _decompressed(content: bytes, codec: str) -> Iterator[bytes]:
    """What can be decompressed: a process that was stopped may have left the last block incomplete."""
    with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
        try:
            while block := stream.read(1 << 20):
                yield block
        except OSError:
            return


def _tables_with(value: int, layout: Layout) -> set[str]:
    """The tables with the number in a row, as text or, in binary columns, as hexadecimal digits of that text."""
    wanted = (str(value), str(value).encode().hex(), value.to_bytes(8, "little").hex(), value.to_bytes(8, "big").hex())
    table, found = "", set()
    for line in postgres.dump(layout).splitlines():
        if line.startswith("COPY "):
            table = line.split()[1]
        elif any(text in line for text in wanted):
            found.add(table)
    return found
