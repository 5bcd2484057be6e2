"""The base class of peers that find survivors with an anti-join, one date after the other.

Survivors are the parent's rows whose key the snapshot lacks. These peers assume what plan `adopt` proves: the snapshot
is newer than the parent, and no two rows of the snapshot have the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer, PeerResult, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DateByDate(Peer):
    """Makes the new table date by date.

    `survivors_only`: whether only survivors are written. If so, the snapshot's own files become part of the table.
    """

    def __init__(self, session: Callable[[], SparkSession], *, survivors_only: bool = False) -> None:
        super().__init__(session)
        self.survivors_only = survivors_only

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        adopted = inputs.snapshot_files() if self.survivors_only else []
        return PeerResult((*adopted, *parquet_files(out)))
