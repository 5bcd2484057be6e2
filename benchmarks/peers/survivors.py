"""Anti-joins date by date: the snapshot and the rows of the state whose key it lacks, or those rows alone.

They presume what plan `adopt` proves: that the snapshot is newer than the state, and has no key twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.inputs import Inputs
from benchmarks.peer import Peer, Result, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DateByDate(Peer):
    """`survivors_only`: the snapshot's own files stay as they are, and belong to the table."""

    def __init__(self, session: Callable[[], SparkSession], *, survivors_only: bool = False) -> None:
        super().__init__(session)
        self.survivors_only = survivors_only

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        adopted = inputs.snapshot_files() if self.survivors_only else []
        return Result((*adopted, *parquet_files(out)))
