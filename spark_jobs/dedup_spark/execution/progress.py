"""Measures the phases of the job, and reports every few seconds, in its log and in `progress.json`, how far it is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType

from pyspark import SparkContext

from dedup_clone.contract.attempt import Attempt
from dedup_spark import storage

INTERVAL_S = 4.0  # so that the log is never silent for more than five seconds
_WRITE_TIMEOUT_S = 3.0  # shorter than the interval, so that a slow storage does not delay the next log line
FILE_NAME = "progress.json"
_logger = logging.getLogger("dedup_spark")


class JobLog:
    """Writes log lines that begin with feed, snapshot ids and generation.

    `seconds`: how long each phase took. `current_phase`: the one that began last.
    """

    def __init__(self, attempt: Attempt) -> None:
        ids = ",".join(str(d.snapshot_id) for d in attempt.deliveries) or "-"
        self._prefix = f"feed={attempt.feed} snapshot_id={ids} generation={attempt.generation}"
        self.seconds: dict[str, float] = {}
        self.current_phase = "start"

    def info(self, text: str) -> None:
        _logger.info("%s %s", self._prefix, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the `with` block as the phase `name`. If a phase runs several times, its seconds are added up."""
        self.current_phase = str(name)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[str(name)] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)


# Returns, for the Spark jobs that run now, how many tasks are done, and how many there are; None while Spark starts.
TaskCounts = Callable[[], tuple[int, int] | None]


class ProgressReport:
    """Reports in the background while its `with` block runs. A failure to report never ends the job.

    `wait`: waits the given number of seconds, or until the job has ended, and returns whether it has ended; tests
    replace it.
    """

    def __init__(self, task_counts: TaskCounts, wait: Callable[[float], bool] | None = None) -> None:
        self._job: tuple[JobLog, str] | None = None
        self._task_counts = task_counts
        self._ended = Event()
        self._wait = wait or self._ended.wait
        self._thread = Thread(target=self._run, name="progress report", daemon=True)
        self._began = time.monotonic()
        self._can_write = True
        self._without_job = "the attempt is read"

    def begin_job(self, job_log: JobLog, attempt_uri: str) -> None:
        """Report this job from now on. `attempt_uri`: the folder of `progress.json`, for the page Snapshots."""
        self._job = job_log, storage.join(attempt_uri, FILE_NAME)

    def end_job(self, failure: str) -> None:
        """Report from now on that Spark stops, and the `failure`, if any, so that it stays in the log's last line."""
        self._without_job = f"Spark stops; {failure}" if failure else "Spark stops"
        self._job = None

    def __enter__(self) -> ProgressReport:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        due = self._began + INTERVAL_S
        while not self._wait(max(0.0, due - time.monotonic())):
            due += INTERVAL_S
            try:
                self.report()
            except Exception:  # whatever Spark raises when it is lost: the job's own thread finds out, and says so
                _logger.warning("the progress of the job is not known", exc_info=True)

    def report(self) -> None:
        """Log one line, and store the same numbers in `progress.json` once the job has begun."""
        seconds, job = time.monotonic() - self._began, self._job
        if job is None:
            _logger.info("at work for %.0f s: %s", seconds, self._without_job)
            return
        job_log, uri = job
        counts = self._task_counts()
        done, of = counts or (0, 0)
        phase, waits = ("start", ": Spark starts") if counts is None else (job_log.current_phase, "")
        running = f", {done} of {of} tasks of the running Spark jobs done" if of else ""
        job_log.info(f"at work for {seconds:.0f} s, phase [{phase}]{waits}{running}")
        self._store(
            uri, {"phase": phase, "done": done, "of": of, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        )

    def _store(self, uri: str, record: dict[str, str | int]) -> None:
        try:
            storage.replace_text(uri, json.dumps(record), timeout_s=_WRITE_TIMEOUT_S)
        except Exception as error:  # whatever a cloud client raises: the page can do without the record
            if self._can_write:
                _logger.warning("cannot write [%s], the page shows no progress: %s", uri, error)
            self._can_write = False


def count_running_tasks(context: SparkContext) -> tuple[int, int]:
    """Return how many tasks are done, and how many there are, in the stages of the Spark jobs that run now."""
    tracker = context.statusTracker()
    jobs = [job for number in tracker.getActiveJobsIds() if (job := tracker.getJobInfo(number))]
    found = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    stages = [stage for stage in found if stage]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
