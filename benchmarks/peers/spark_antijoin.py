"""Makes the new table with one plain Spark join: the snapshot, and the parent's rows whose key the snapshot lacks.

The peer assumes what plan `adopt` proves: the snapshot is newer than the parent, and no two rows of the snapshot have
the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer
from benchmarks.peers.spark_tables import DATED_KEYS, read_parent, read_snapshot, write_table


class AntiJoin(Peer):
    """Spark's anti-join. `hint`: the join hint, `merge` or `shuffle_hash`."""

    def __init__(self, session: Callable[[], SparkSession], hint: str) -> None:
        super().__init__(session)
        self._hint = hint

    def run(self, inputs: InputFiles, out: Path) -> None:
        new, old = read_snapshot(self.session(), inputs), read_parent(self.session(), inputs)
        keys = new.select(*DATED_KEYS).hint(self._hint)
        write_table(new.unionByName(old.join(keys, list(DATED_KEYS), "left_anti").select(*new.columns)), out)
