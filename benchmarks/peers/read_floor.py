"""What reading alone costs: pyarrow decodes all columns, one Spark task a date, as the job's tasks would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.inputs import COLUMNS, DateFiles, Inputs
from benchmarks.peer import Peer, Result


class ReadFloor(Peer):
    def __init__(self, session: Callable[[], SparkSession], sides: tuple[str, ...] = ("state", "snapshot")) -> None:
        super().__init__(session)
        self._sides = sides

    def run(self, inputs: Inputs, out: Path) -> int:
        context = self.session().sparkContext
        tasks = [_files(day, self._sides) for day in inputs.dates]
        return sum(context.parallelize(tasks, len(tasks)).map(_read).collect())

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        read = sum(Path(file).stat().st_size for day in inputs.dates for file in _files(day, self._sides))
        return Result(None, bytes_read=read, bytes_written=0)


def _files(day: DateFiles, sides: tuple[str, ...]) -> list[str]:
    return [file for side in sides for file in getattr(day, side)]


def _read(files: list[str]) -> int:
    return sum(pq.ParquetFile(file).read(columns=list(COLUMNS), use_threads=False).num_rows for file in files)
