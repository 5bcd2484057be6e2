"""The published method on Spark: ROW_NUMBER over both sides, the first row of each key stays."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Window
from pyspark.sql import functions as f

from benchmarks.inputs import Inputs
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, snapshot, state, write


class RowNumber(Peer):
    def run(self, inputs: Inputs, out: Path) -> None:
        both = state(self.session(), inputs).unionByName(snapshot(self.session(), inputs))
        order = Window.partitionBy(*DATED_KEYS).orderBy(f.col("update_id").desc(), f.col("attr_value").desc())
        write(both.withColumn("place", f.row_number().over(order)).where("place = 1"), out)
