"""Searches for a number in everything that a stack has written: files, compressed or not, and Airflow's database."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.stack import postgres
from devstack.stack.layout import Layout


def find_places(value: int, layout: Layout, *, excluded_folder: Path) -> list[str]:
    """The files of the stack and the tables of Airflow's database that contain the number, without `excluded_folder`.

    PostgreSQL's own files are not searched, because deleted rows stay in them until a vacuum.
    """
    ignored = (layout.database, layout.run, excluded_folder)
    files = [
        path
        for path in layout.local.rglob("*")
        if path.is_file() and not any(path.is_relative_to(folder) for folder in ignored)
    ]
    found = [str(path.relative_to(layout.local)) for path in files if contains(_read(path), value)]
    return sorted({*found, *(f"database: {table}" for table in _find_tables(value, layout))})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # deleted meanwhile
        return b""


def contains(content: bytes, value: int) -> bool:
    """Whether the content has the number: as text, as eight bytes, compressed, or in an integer column of Parquet."""
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
    """The decompressed blocks. An incomplete last block, as a stopped process may leave one, is skipped."""
    with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
        try:
            while block := stream.read(1 << 20):
                yield block
        except OSError:
            return


def _find_tables(value: int, layout: Layout) -> set[str]:
    """The tables with a row that contains the number, as text or, in a binary column, as hexadecimal digits."""
    forms = (str(value), str(value).encode().hex(), value.to_bytes(8, "little").hex(), value.to_bytes(8, "big").hex())
    table, tables = "", set()
    for line in postgres.dump(layout).splitlines():
        if line.startswith("COPY "):
            table = line.split()[1]
        elif any(form in line for form in forms):
            tables.add(table)
    return tables
