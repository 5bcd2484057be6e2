"""Reports every few seconds how far the job is, in its log and in `progress.json`, from a thread of the driver.

Spark knows only tasks. Small dates share a task, so the number of dates that a running Spark job has done is estimated
from the share of its tasks that are done.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType

from pyspark import SparkContext

from dedup_spark import storage
from dedup_spark.execution.job_log import JobLog

INTERVAL_S = 4.0  # so that the log is never silent for more than five seconds
_WRITE_TIMEOUT_S = 3.0  # shorter than the interval, so that a slow storage does not delay the next log line
FILE_NAME = "progress.json"
_logger = logging.getLogger("dedup_spark")

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
        progress, counts = job_log.progress, self._task_counts()
        tasks_done, tasks = counts or (0, 0)
        phase = "start" if counts is None else progress.phase
        done, of = progress.estimated_done(tasks_done / tasks if tasks else 0.0), progress.date_count
        dates = f", about {done} of {of} dates done" if of else ""
        running = f", {tasks_done} of {tasks} tasks of the running Spark jobs done" if tasks else ""
        waits = ": Spark starts" if counts is None else ""
        job_log.info(f"at work for {seconds:.0f} s, phase [{phase}]{waits}{dates}{running}")
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
