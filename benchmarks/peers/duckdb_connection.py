"""The settings of DuckDB, and the SQL, that the peers with DuckDB share."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from benchmarks.paths import WORK

COPY_OPTIONS = "format parquet, compression zstd, compression_level 1"


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for setting in ("threads=2", "preserve_insertion_order=false", "memory_limit='10GB'"):
        connection.execute(f"SET {setting}")
    connection.execute(f"SET temp_directory='{WORK / 'duckdb'}'")
    return connection


def table_function(files: Iterable[str]) -> str:
    """The SQL expression that reads these files."""
    names = ", ".join(f"'{file}'" for file in files)
    return f"read_parquet([{names}], hive_partitioning=false)"
