"""The snapshot, and the rows of the state whose key it lacks, by one plain Spark join.

It presumes what plan `adopt` proves: that the snapshot is newer than the state, and has no key twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.inputs import Inputs
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, snapshot, state, write


class AntiJoin(Peer):
    """`hint` is Spark's name of the join: `merge` or `shuffle_hash`."""

    def __init__(self, session: Callable[[], SparkSession], hint: str) -> None:
        super().__init__(session)
        self._hint = hint

    def run(self, inputs: Inputs, out: Path) -> None:
        new, old = snapshot(self.session(), inputs), state(self.session(), inputs)
        keys = new.select(*DATED_KEYS).hint(self._hint)
        write(new.unionByName(old.join(keys, list(DATED_KEYS), "left_anti").select(*new.columns)), out)
