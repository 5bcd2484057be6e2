"""Makes the new table with DuckDB's anti-join, date by date."""

from __future__ import annotations

from pathlib import Path

from benchmarks.input_files import COLUMNS, KEYS, InputFiles
from benchmarks.peers.date_by_date import DateByDate
from benchmarks.peers.duckdb_connection import COPY_OPTIONS, connect, table_function


class AntiJoin(DateByDate):
    def run(self, inputs: InputFiles, out: Path) -> None:
        connection, columns = connect(), ", ".join(COLUMNS)
        for date_files in inputs.dates:
            new_sql, old_sql = table_function(date_files.snapshot), table_function(date_files.parent)
            rows_sql = f"SELECT {columns} FROM {old_sql} ANTI JOIN {new_sql} AS new USING ({', '.join(KEYS)})"
            if not self.survivors_only:
                rows_sql = f"SELECT {columns} FROM {new_sql} UNION ALL ({rows_sql})"
            connection.execute(f"COPY ({rows_sql}) TO '{out}/{date_files.day}.parquet' ({COPY_OPTIONS})")
