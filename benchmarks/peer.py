"""The interface of a peer: it makes the new table from the input files, or only reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.input_files import InputFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PeerResult:
    """`files` contain the new table; None for a peer that makes none. `notes` are stored beside the figures."""

    files: tuple[str, ...] | None
    bytes_read: int | None = None
    bytes_written: int | None = None
    notes: dict[str, str] = field(default_factory=dict)


class Peer(ABC):
    """`session` returns the process's Spark session, which peers without Spark never call."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self.session = session

    def prepare(self, inputs: InputFiles, out: Path) -> None:  # noqa: B027 - most peers need no preparation
        """Prepare a run, without being measured. `out`: an empty folder for this run."""

    @abstractmethod
    def run(self, inputs: InputFiles, out: Path) -> object:
        """Do the work that is measured. The return value is passed to `result`."""

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        """Describe the table, without being measured. By default the whole table is in `out`."""
        return PeerResult(tuple(parquet_files(out)))


def parquet_files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]
