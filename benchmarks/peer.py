"""What every measured thing is: something that turns the same files into the new table, or a floor below that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Result:
    """`files` hold the new table, all its rows; None for a floor, which makes none. Notes go beside the figures."""

    files: tuple[str, ...] | None
    bytes_read: int | None = None
    bytes_written: int | None = None
    notes: dict[str, str] = field(default_factory=dict)


class Peer(ABC):
    """`session` gives the process's warm Spark session; peers without Spark never ask."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self.session = session

    def prepare(self, inputs: Inputs, out: Path) -> None:  # noqa: B027 - most need nothing
        """Done before each run, not timed. `out` is an empty folder of this run."""

    @abstractmethod
    def run(self, inputs: Inputs, out: Path) -> object:
        """What is timed."""

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        """Said afterwards, not timed: by default the table lies whole in `out`."""
        return Result(tuple(parquet_files(out)))


def parquet_files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]
