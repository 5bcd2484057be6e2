"""Replaces the Spark session in tests of what the dedup job does inside its Spark tasks.

The replacement runs these tasks in the test's own process, one after the other, so that a test can change limits and
count calls inside them. Plans that use DataFrames still need a real session.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

# How many cores the session says it has. A test may change it.
CORES = 2
Work = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class _Tasks:
    """The RDD over whose partitions the job calls functions. Items and results are copied, as between processes."""

    items: Sequence[Any]
    partition_count: int
    work: Work = iter

    def mapPartitions(self, work: Work) -> _Tasks:  # noqa: N802, RUF100 - Spark's name
        return replace(self, work=work)

    def collect(self) -> list[Any]:
        return [copied(result) for result in self.work(map(copied, self.items))]


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class _Context:
    """The SparkContext of a DriverSession. `context`: that of its real session, if it has one."""

    applicationId = "driver"  # noqa: N815, RUF100 - Spark's name

    def __init__(self, context: SparkContext | None) -> None:
        self._context = context

    @property
    def defaultParallelism(self) -> int:  # noqa: N802, RUF100 - Spark's name
        return CORES

    def setJobDescription(self, description: str) -> None:  # noqa: N802, RUF100 - Spark's name
        if self._context:
            self._context.setJobDescription(description)

    def parallelize(self, items: Sequence[Any], partition_count: int) -> _Tasks:
        return _Tasks(items, partition_count)


class DriverSession:
    """The replacement. `dataframes`: a real session, in which plan window runs; without it this plan fails."""

    def __init__(self, dataframes: SparkSession | None = None) -> None:
        self._dataframes = dataframes
        self.sparkContext = _Context(dataframes.sparkContext if dataframes else None)

    def createDataFrame(self, tasks: _Tasks, schema: str) -> DataFrame:  # noqa: N802, RUF100 - Spark's name
        session = self._real_session("createDataFrame")
        return session.createDataFrame(session.sparkContext.parallelize(tasks.items, tasks.partition_count), schema)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real_session(name), name)

    def _real_session(self, name: str) -> SparkSession:
        assert self._dataframes, f"this session has no DataFrames, so the job must not use [{name}]"
        return self._dataframes
