"""Computes the new table by one plain Spark join: the snapshot, and the state's rows whose key the snapshot lacks.

It assumes what plan `adopt` proves: the snapshot is newer than the state, and no two of its rows have the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, snapshot, state, write


class AntiJoin(Peer):
    """`hint` is Spark's name of the join: `merge` or `shuffle_hash`."""

    def __init__(self, session: Callable[[], SparkSession], hint: str) -> None:
        super().__init__(session)
        self._hint = hint

    def run(self, inputs: InputFiles, out: Path) -> None:
        new, old = snapshot(self.session(), inputs), state(self.session(), inputs)
        keys = new.select(*DATED_KEYS).hint(self._hint)
        write(new.unionByName(old.join(keys, list(DATED_KEYS), "left_anti").select(*new.columns)), out)
