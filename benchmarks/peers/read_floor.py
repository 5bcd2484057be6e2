"""Measures a lower bound for peers that read whole inputs: pyarrow reads all columns, in as many tasks as the job."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.input_files import COLUMNS, DateFiles, InputFiles
from benchmarks.peer import Peer, PeerResult
from dedup_spark.execution.date_fan_out import task_count
from dedup_spark.execution.fan_out import assign_round_robin


class ReadFloor(Peer):
    """Reads files, and makes no table. `inputs_read`: the names of the fields of DateFiles whose files are read."""

    def __init__(
        self, session: Callable[[], SparkSession], inputs_read: tuple[str, ...] = ("parent", "snapshot")
    ) -> None:
        super().__init__(session)
        self._inputs_read = inputs_read

    def run(self, inputs: InputFiles, out: Path) -> int:
        context = self.session().sparkContext
        tasks = task_count(context.defaultParallelism, len(inputs.dates), inputs.parent_bytes + inputs.snapshot_bytes)
        files = [_list_files(date_files, self._inputs_read) for date_files in inputs.dates]
        task_files = [list(chain.from_iterable(dates)) for dates in assign_round_robin(files, tasks)]
        return sum(context.parallelize(task_files, tasks).map(_count_rows).collect())

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        read = sum(
            Path(file).stat().st_size
            for date_files in inputs.dates
            for file in _list_files(date_files, self._inputs_read)
        )
        return PeerResult(None, bytes_read=read, bytes_written=0)


def _list_files(date_files: DateFiles, inputs_read: tuple[str, ...]) -> list[str]:
    return [file for name in inputs_read for file in getattr(date_files, name)]


def _count_rows(files: list[str]) -> int:
    return sum(pq.ParquetFile(file).read(columns=list(COLUMNS), use_threads=False).num_rows for file in files)
