"""The interface of a peer: a way of making the new table from the rows of the parent and of the arriving snapshot.

The dedup job with one of its plans is a peer too. Some peers are only lower bounds: they just read or copy files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.input_files import InputFiles
from benchmarks.row_counts import RowCounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PeerResult:
    """What a run made, besides its measured time and memory.

    `files`: the paths or URIs of the Parquet files that together are the new table; None for a peer that makes no
    table. `counts`: what the peer counted; None if it counts nothing. `bytes_read`, `bytes_written`: None for a peer
    that does not count them. `notes`: any texts about the run, by name.
    """

    files: tuple[str, ...] | None
    counts: RowCounts | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    notes: dict[str, str] = field(default_factory=dict)


class Peer(ABC):
    """One way of making the new table. `session` returns the process's Spark session; only peers with Spark call it."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self.session = session

    def prepare(self, inputs: InputFiles, out: Path) -> None:  # noqa: B027 - most peers need no preparation
        """Do what must precede a run and is not measured. `out`: the folder for this run, empty at the beginning."""

    @abstractmethod
    def run(self, inputs: InputFiles, out: Path) -> object:
        """Do the work that is measured. The return value is passed to `result` as `returned`."""

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        """Describe what the run made; this is not measured. By default all Parquet files in `out` are the table."""
        return PeerResult(tuple(parquet_files(out)))


def parquet_files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]
