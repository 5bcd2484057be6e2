"""Runs the reference method (docs/costs.md) on Spark: ROW_NUMBER over parent and snapshot; row 1 of each key stays."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Window
from pyspark.sql import functions as f

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, read_parent, read_snapshot, write_table


class RowNumber(Peer):
    def run(self, inputs: InputFiles, out: Path) -> None:
        both = read_parent(self.session(), inputs).unionByName(read_snapshot(self.session(), inputs))
        newest_first = Window.partitionBy(*DATED_KEYS).orderBy(f.col("update_id").desc(), f.col("attr_value").desc())
        write_table(both.withColumn("number", f.row_number().over(newest_first)).where("number = 1"), out)
