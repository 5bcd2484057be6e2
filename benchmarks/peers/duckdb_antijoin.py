"""DuckDB's anti-join, date by date."""

from __future__ import annotations

from pathlib import Path

from benchmarks.inputs import COLUMNS, KEYS, Inputs
from benchmarks.peers.duckdb_connection import PARQUET, connect, rows_of
from benchmarks.peers.survivors import DateByDate


class AntiJoin(DateByDate):
    def run(self, inputs: Inputs, out: Path) -> None:
        connection, columns = connect(), ", ".join(COLUMNS)
        for day in inputs.dates:
            new, old = rows_of(day.snapshot), rows_of(day.state)
            rows = f"SELECT {columns} FROM {old} ANTI JOIN {new} AS new USING ({', '.join(KEYS)})"
            if not self.survivors_only:
                rows = f"SELECT {columns} FROM {new} UNION ALL ({rows})"
            connection.execute(f"COPY ({rows}) TO '{out}/{day.day}.parquet' ({PARQUET})")
