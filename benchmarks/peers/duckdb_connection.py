"""Settings and SQL that all peers with DuckDB use."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from benchmarks.paths import WORK

COPY_OPTIONS = "format parquet, compression zstd, compression_level 1"


def connect() -> duckdb.DuckDBPyConnection:
    """A new in-memory database with two threads and at most 10 GB of memory."""
    connection = duckdb.connect()
    for setting in ("threads=2", "preserve_insertion_order=false", "memory_limit='10GB'"):
        connection.execute(f"SET {setting}")
    connection.execute(f"SET temp_directory='{WORK / 'duckdb'}'")
    return connection


def table_function(files: Iterable[str]) -> str:
    """A SQL table expression that reads these Parquet files."""
    names = ", ".join(f"'{file}'" for file in files)
    return f"read_parquet([{names}], hive_partitioning=false)"
