"""What no plain Spark job can go below: both sides decoded, one side written, no shuffle, no dedup."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as f

from benchmarks.inputs import COLUMNS, Inputs
from benchmarks.peer import Peer, Result
from benchmarks.peers.spark_tables import snapshot, state, write


class Copy(Peer):
    def run(self, inputs: Inputs, out: Path) -> None:
        state(self.session(), inputs).agg(*[f.max(name) for name in COLUMNS]).collect()
        write(snapshot(self.session(), inputs), out)

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        return Result(None)
