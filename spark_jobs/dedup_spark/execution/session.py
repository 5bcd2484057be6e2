"""The job's Spark session: its settings, and when it starts. Master, memory and connectors are up to the submitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type hints
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import dedup_clone
import dedup_spark

SESSION_CONF = {
    # The job sizes its one shuffle itself, and its tasks are its files: nothing is left for AQE to adapt.
    "spark.sql.adaptive.enabled": "false",
    # Rows are partitioned by date and output file before a join by key: that suffices, no second shuffle is needed.
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


# Spark translates the errors it knows, and lets py4j's own error through for the others.
SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)


class Spark(Protocol):
    """Spark as the job uses it. What is not running yet starts with the first call."""

    def context(self) -> SparkContext:
        """For tasks in Python alone."""

    def session(self) -> SparkSession:
        """For rows in DataFrames."""


@dataclass(frozen=True)
class SparkOf:
    """A session that somebody else starts, when it is first used, and stops."""

    start: Callable[[], SparkSession]

    def context(self) -> SparkContext:
        return self.start().sparkContext

    def session(self) -> SparkSession:
        return self.start()


class LazySpark:
    """The job's own Spark, started on first use: a publish that only adopts small dates needs none.

    A session takes seconds longer to start than the context below it, and plan adopt needs the context only.
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
                    importer.submit(import_module, "pandas")  # PySpark imports it later: that takes seconds
                    self._session = start_session(self._application)
                self._context = self._session.sparkContext
            return self._session

    def stop(self) -> None:
        """Stop what was started."""
        with self._lock:
            if self._session is not None:
                self._session.stop()
            elif self._context is not None:
                # PySpark's own stop waits up to a second for its accumulator thread.
                self._context._jsc.stop()
                SparkContext._active_spark_context = None
            self._session = self._context = None


@contextmanager
def starting_early(start: Callable[[], object]) -> Iterator[None]:
    """Inside the block Spark starts in the background, for it is known to be needed later."""
    with ThreadPoolExecutor(1) as starter:
        starter.submit(start)  # a failure is raised again where Spark is used
        yield


def start_context(application: str) -> SparkContext:
    """Start with the settings of a session, for one may be started on this context later."""
    conf = SparkConf().setAppName(application).setAll([*SESSION_CONF.items(), *_worker_path().items()])
    return SparkContext.getOrCreate(conf)


def start_session(application: str) -> SparkSession:
    builder = SparkSession.builder.appName(application)
    for key, value in {**SESSION_CONF, **_worker_path()}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def root_cause(error: Exception) -> str:
    """The innermost cause that a Spark error's text names, as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or [type(error).__name__])[-1]


def read_files(session: SparkSession, schema: StructType, uris: list[str]) -> DataFrame:
    """Read exactly the named files, whatever characters their names have."""
    # Recursive lookup keeps Spark from taking `date=…` in a path for a column, and no name is read as a pattern.
    reader = session.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    return reader.parquet(*uris)


def _worker_path() -> dict[str, str]:
    """Workers import the packages from the driver's folders; a zip reaches them by --py-files."""
    roots = {str(Path(str(package.__file__)).parent.parent) for package in (dedup_clone, dedup_spark)}
    folders = sorted(root for root in roots if Path(root).is_dir())
    return {"spark.executorEnv.PYTHONPATH": ":".join(folders)} if folders else {}
