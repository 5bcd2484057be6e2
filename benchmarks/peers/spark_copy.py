"""Measures a lower bound for plain Spark jobs: read parent and snapshot, and write the snapshot, without a shuffle."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as f

from benchmarks.input_files import COLUMNS, InputFiles
from benchmarks.peer import Peer, PeerResult
from benchmarks.peers.spark_tables import read_parent, read_snapshot, write_table


class Copy(Peer):
    def run(self, inputs: InputFiles, out: Path) -> None:
        read_parent(self.session(), inputs).agg(*[f.max(name) for name in COLUMNS]).collect()
        write_table(read_snapshot(self.session(), inputs), out)

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        return PeerResult(None)
