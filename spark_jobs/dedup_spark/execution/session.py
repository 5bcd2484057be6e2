"""Starts the job's Spark session, and describes its failures.

Master, memory and connectors are not set here: the command that submits the job sets them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from pyspark.sql import SparkSession

import dedup_clone
import dedup_spark

SESSION_CONF = {
    # The job sizes its only shuffle itself, and one task must get all rows of an output file: AQE must not change this.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # What tasks return may be more than the gigabyte that Spark allows: an erasure returns a record for each row.
    "spark.driver.maxResultSize": "0",
    # With these settings glibc keeps the memory of freed arrays: new pages would cost as much as hashing does.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    # The same for mimalloc, with which pyarrow allocates: -1 lets it keep freed memory, which a worker soon needs.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}


_CAUSED_BY = "Caused by:"


# Returns the job's only session, once it has started.
SessionSource = Callable[[], SparkSession]


class StartingSession:
    """The job's session, which starts in the background while the driver reads the attempt and its records.

    Every run of the job starts one, even with nothing to do: YARN reports a driver without a session as failed.
    """

    def __init__(self, application: str) -> None:
        pool = ThreadPoolExecutor(2)
        self._session = pool.submit(start_session, application)
        pool.submit(import_module, "pandas")  # mapInArrow imports it on the driver, which takes a second
        pool.shutdown(wait=False)

    def __call__(self) -> SparkSession:
        """Wait for the session, and return it. Raises the error with which the start failed."""
        return self._session.result()

    @property
    def started(self) -> SparkSession | None:
        """The session; None while it starts, or if it could not start."""
        future = self._session
        return future.result() if future.done() and future.exception() is None else None

    def stop(self) -> None:
        """Wait until the session has started, and stop it. If the start failed, do nothing."""
        if self._session.exception() is None:
            self._session.result().stop()


def start_session(application: str) -> SparkSession:
    """Start a session with SESSION_CONF. `application`: its name in Spark's UI."""
    builder = SparkSession.builder.appName(application)
    for key, value in {**SESSION_CONF, **_worker_path_conf()}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def describe_failure(error: Exception) -> str:
    """The root cause of a Spark error, as one line. If it has no message, the line begins with the error it caused.

    For example, a Python worker that was killed leaves `java.io.EOFException` as the root cause.
    """
    *_, outer, root = ["", *_causes(error)]
    has_message = ":" in root.removeprefix(_CAUSED_BY)
    return root if has_message or not outer else f"{outer}; {root}"


def _causes(error: Exception) -> list[str]:
    """The lines of a Spark error's text that name its causes, the innermost last; otherwise its last line.

    py4j's text begins with the called method. The line of the Java exception follows, with a colon before it, and then
    a stack trace, which names no further cause if, for example, an executor was lost.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", _CAUSED_BY))]
    return causes or lines[-1:] or [type(error).__name__]


def _worker_path_conf() -> dict[str, str]:
    """Return the setting by which workers import the packages from the driver's folders; empty if these are zips.

    Zips reach the workers by `--py-files`.
    """
    roots = {str(Path(str(package.__file__)).parent.parent) for package in (dedup_clone, dedup_spark)}
    folders = sorted(root for root in roots if Path(root).is_dir())
    return {"spark.executorEnv.PYTHONPATH": ":".join(folders)} if folders else {}
