"""DuckDB: the published statement, QUALIFY ROW_NUMBER over both sides at once."""

from __future__ import annotations

from pathlib import Path

from benchmarks.inputs import COLUMNS, KEYS, Inputs
from benchmarks.peer import Peer
from benchmarks.peers.duckdb_connection import PARQUET, connect, rows_of


class Qualify(Peer):
    def run(self, inputs: Inputs, out: Path) -> None:
        both = rows_of([*inputs.state_files(), *inputs.snapshot_files()])
        connect().execute(
            f"COPY (SELECT {', '.join(COLUMNS)} FROM {both} QUALIFY row_number() OVER "
            f"(PARTITION BY date, {', '.join(KEYS)} ORDER BY update_id DESC, attr_value DESC) = 1) "
            f"TO '{out}/table' (PARTITION_BY (date), {PARQUET})"
        )
