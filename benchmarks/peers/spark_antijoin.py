"""Makes the new table by one plain Spark join: the snapshot, and the parent's rows whose key the snapshot lacks.

It assumes what plan `adopt` proves: the snapshot is newer than the parent, and no two of its rows have the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, parent, snapshot, write


class AntiJoin(Peer):
    """`hint`: Spark's join hint, `merge` or `shuffle_hash`."""

    def __init__(self, session: Callable[[], SparkSession], hint: str) -> None:
        super().__init__(session)
        self._hint = hint

    def run(self, inputs: InputFiles, out: Path) -> None:
        new, old = snapshot(self.session(), inputs), parent(self.session(), inputs)
        keys = new.select(*DATED_KEYS).hint(self._hint)
        write(new.unionByName(old.join(keys, list(DATED_KEYS), "left_anti").select(*new.columns)), out)
