"""Searches for a value in everything that a stack has written: files, compressed or not, and Airflow's database."""

from __future__ import annotations

from pathlib import Path

from devstack.stack import postgres
from devstack.stack.layout import Layout
from testkit.value_search import Value, contains, encodings


def find_places(value: Value, layout: Layout, *, excluded_folder: Path) -> list[str]:
    """The files of the stack, outside `excluded_folder`, and the tables of Airflow's database that contain the value.

    PostgreSQL's own files are not searched, because deleted rows stay in them until a vacuum; nor is the folder `run`
    (sockets, ports and settings of the running processes).
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


def _find_tables(value: Value, layout: Layout) -> set[str]:
    """The tables with a row that contains the value, as text or, in a binary column, as hexadecimal digits."""
    texts = (str(value), *(encoding.hex() for encoding in encodings(value)))
    table, tables = "", set()
    for line in postgres.dump(layout).splitlines():
        if line.startswith("COPY "):
            table = line.split()[1]
        elif any(text in line for text in texts):
            tables.add(table)
    return tables
