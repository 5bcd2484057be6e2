"""What reading alone costs: pyarrow decodes all columns, dates dealt to as many Spark tasks as the job makes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.inputs import COLUMNS, DateFiles, Inputs
from benchmarks.peer import Peer, Result
from dedup_spark.adopt.over_dates import tasks_for
from dedup_spark.fan_out import dealt


class ReadFloor(Peer):
    def __init__(self, session: Callable[[], SparkSession], sides: tuple[str, ...] = ("state", "snapshot")) -> None:
        super().__init__(session)
        self._sides = sides

    def run(self, inputs: Inputs, out: Path) -> int:
        context = self.session().sparkContext
        tasks = tasks_for(context, len(inputs.dates), inputs.state_bytes + inputs.snapshot_bytes)
        files = [_files(day, self._sides) for day in inputs.dates]
        hands = [list(chain.from_iterable(hand)) for hand in dealt(files, tasks)]
        return sum(context.parallelize(hands, tasks).map(_read).collect())

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        read = sum(Path(file).stat().st_size for day in inputs.dates for file in _files(day, self._sides))
        return Result(None, bytes_read=read, bytes_written=0)


def _files(day: DateFiles, sides: tuple[str, ...]) -> list[str]:
    return [file for side in sides for file in getattr(day, side)]


def _read(files: list[str]) -> int:
    return sum(pq.ParquetFile(file).read(columns=list(COLUMNS), use_threads=False).num_rows for file in files)
