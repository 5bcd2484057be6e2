"""The published method's other form: GROUP BY key, and max_by for the row's other columns."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as f

from benchmarks.inputs import Inputs
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, snapshot, state, write


class GroupBy(Peer):
    def run(self, inputs: Inputs, out: Path) -> None:
        both = state(self.session(), inputs).unionByName(snapshot(self.session(), inputs))
        row, rank = f.struct("attr_value", "update_id"), f.struct("update_id", "attr_value")
        best = both.groupBy(*DATED_KEYS).agg(f.max_by(row, rank).alias("best"))
        write(best.select(*DATED_KEYS, "best.*"), out)
