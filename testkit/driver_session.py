"""Replaces the Spark session in tests of what the dedup job does inside its Spark tasks.

The replacement runs these tasks in the test's own process, one after the other, so that a test can change limits and
count calls inside them. Plans that use DataFrames still need a real session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

Batches = Iterable[pa.RecordBatch]


class _Context:
    """The attributes of a SparkContext that the job uses."""

    applicationId = "driver"  # noqa: N815, RUF100 - Spark's name
    defaultParallelism = 2  # noqa: N815, RUF100 - Spark's name

    def setJobDescription(self, description: str) -> None:  # noqa: N802, RUF100 - Spark's name
        pass


@dataclass(frozen=True)
class _Tasks:
    """The DataFrame of task numbers over which the job calls `mapInArrow`."""

    count: int
    work: Callable[[Batches], Iterator[pa.RecordBatch]] | None = None

    def mapInArrow(self, work: Callable[[Batches], Iterator[pa.RecordBatch]], schema: str) -> _Tasks:  # noqa: N802, RUF100 - Spark's name
        return _Tasks(self.count, work)

    def collect(self) -> list[Any]:
        assert self.work
        tasks = pa.RecordBatch.from_pydict({"id": pa.array(range(self.count), pa.int64())})
        return [SimpleNamespace(**row) for done in self.work([tasks]) for row in done.to_pylist()]


class DriverSession:
    """The replacement. `dataframes`: a real session, in which plan window runs; without it this plan fails."""

    def __init__(self, dataframes: SparkSession | None = None) -> None:
        self._dataframes = dataframes
        self.sparkContext = dataframes.sparkContext if dataframes else _Context()

    def range(self, start: int, end: int, step: int, tasks: int) -> _Tasks:
        return _Tasks(tasks)

    def __getattr__(self, name: str) -> Any:
        assert self._dataframes, f"this session has no DataFrames, so the job must not use [{name}]"
        return getattr(self._dataframes, name)
