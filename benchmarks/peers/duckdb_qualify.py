"""Runs the statement of the reference method (docs/costs.md) in DuckDB: QUALIFY ROW_NUMBER over parent and snapshot."""

from __future__ import annotations

from pathlib import Path

from benchmarks.input_files import COLUMNS, KEYS, InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.duckdb_connection import COPY_OPTIONS, connect, table_function


class Qualify(Peer):
    def run(self, inputs: InputFiles, out: Path) -> None:
        both_sql = table_function([*inputs.parent_files(), *inputs.snapshot_files()])
        connect().execute(
            f"COPY (SELECT {', '.join(COLUMNS)} FROM {both_sql} QUALIFY row_number() OVER "
            f"(PARTITION BY date, {', '.join(KEYS)} ORDER BY update_id DESC, attr_value DESC) = 1) "
            f"TO '{out}/table' (PARTITION_BY (date), {COPY_OPTIONS})"
        )
