"""The Spark session that the job's plans rely on. Master, memory and connectors are the submitter's business."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Protocol

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import dedup_clone
import dedup_spark

SESSION_CONF = {
    # The job sizes its one shuffle itself, and its tasks are its files: nothing is left for AQE to adapt.
    "spark.sql.adaptive.enabled": "false",
    # Rows lie by (date, bucket) before a join by key: that is enough to join without a second shuffle.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    # Dates and times mean what BigQuery reads, whichever calendar an old writer noted.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Named files are looked up by a job of one task each, up to this many: thousands of tasks cost more than they save.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    # glibc gives each freed array of a worker back to the kernel, whose new pages cost as much as hashing does.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}


class Spark(Protocol):
    """Spark as the job asks for it. What is not there yet starts with the first question."""

    def context(self) -> SparkContext:
        """For tasks that are Python's alone."""

    def session(self) -> SparkSession:
        """For rows in DataFrames."""


@dataclass(frozen=True)
class SparkOf:
    """Somebody else's session, who starts it when asked, and stops it."""

    start: Callable[[], SparkSession]

    def context(self) -> SparkContext:
        return self.start().sparkContext

    def session(self) -> SparkSession:
        return self.start()


class LazySpark:
    """The job's own, for everything that is asked of it: a publish that only adopts small dates needs none.

    A session takes seconds longer than the context below it, and adoption asks for no more than that.
    """

    def __init__(self, application: str) -> None:
        self._application = application
        self._lock = Lock()
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None

    def context(self) -> SparkContext:
        with self._lock:
            if self._context is None:
                self._context = start_context(self._application)
            return self._context

    def session(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                with ThreadPoolExecutor(1) as importer:
                    importer.submit(import_module, "pandas")  # PySpark asks for it later: seconds beside Spark's start
                    self._session = start_session(self._application)
                self._context = self._session.sparkContext
            return self._session

    def stop(self) -> None:
        """Spark is not left behind."""
        with self._lock:
            if self._session is not None:
                self._session.stop()
            elif self._context is not None:
                # PySpark's own stop waits up to a second for a thread that has nothing left to gather.
                self._context._jsc.stop()
                SparkContext._active_spark_context = None
            self._session = self._context = None


@contextmanager
def starting_early(start: Callable[[], object]) -> Iterator[None]:
    """Inside the block Spark starts beside whatever goes on, for it is known to be needed later."""
    with ThreadPoolExecutor(1) as starter:
        starter.submit(start)  # whoever needs it asks again, and sees a failure then
        yield


def start_context(application: str) -> SparkContext:
    """Settings of sessions are given already: one may be asked for later."""
    conf = SparkConf().setAppName(application).setAll([*SESSION_CONF.items(), *_worker_path().items()])
    return SparkContext.getOrCreate(conf)


def start_session(application: str) -> SparkSession:
    builder = SparkSession.builder.appName(application)
    for key, value in {**SESSION_CONF, **_worker_path()}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _worker_path() -> dict[str, str]:
    """Workers import the packages from the folders that the driver did; a zip reaches them by --py-files."""
    roots = {str(Path(str(package.__file__)).parent.parent) for package in (dedup_clone, dedup_spark)}
    folders = sorted(root for root in roots if Path(root).is_dir())
    return {"spark.executorEnv.PYTHONPATH": ":".join(folders)} if folders else {}
