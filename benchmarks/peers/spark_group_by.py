"""Makes the reference method's table (docs/costs.md) on Spark by GROUP BY key, with max_by for the other columns."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as f

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, parent, snapshot, write


class GroupBy(Peer):
    def run(self, inputs: InputFiles, out: Path) -> None:
        both = parent(self.session(), inputs).unionByName(snapshot(self.session(), inputs))
        columns, precedence = f.struct("attr_value", "update_id"), f.struct("update_id", "attr_value")
        best = both.groupBy(*DATED_KEYS).agg(f.max_by(columns, precedence).alias("best"))
        write(best.select(*DATED_KEYS, "best.*"), out)
