"""Runs the tasks of many dates: small dates share a Spark task, and a very large date is split over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol, TypeVar

from dedup_spark import storage
from dedup_spark.execution.fan_out import map_dates
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.progress import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.rewrite.date_merge import RewriteTask

Task = AdoptTask | RewriteTask
Result = TypeVar("Result", covariant=True)

# A date of at least this many times the median size, and of at least _MIN_LARGE_BYTES, is read by several threads. With
# one thread it would end long after the others.
_LARGE_FACTOR = 4
_MIN_LARGE_BYTES = 1 << 30
_MAX_THREADS = 4
# A smaller date is not split: splitting takes several Spark jobs, and the driver adds up the sums of all parts.
_MIN_SPLIT_BYTES = 256 << 20
# The size, in fair shares, above which `is_split` splits a date grows with the number of cores, up to this limit.
_MAX_FAIR_SHARES = 16.0


class DateWork(Protocol[Result]):
    """The work on one date. It runs in a Spark task."""

    def __call__(self, task: Task, /) -> Result: ...

    def with_parts(self, parts: PartTasks) -> DateWork[Result]:
        """Return the same work, to be called on the driver, with parts of it run as Spark tasks."""


def run_tasks_of_dates(
    session: SessionSource,
    work: DateWork[Result],
    tasks: Sequence[Task],
    description: str,
    data_uri: str,
    job_log: JobLog,
) -> list[Result]:
    """Return the results in the order of `tasks`. Parts of a split date exchange objects in a folder below `data_uri`.

    The folder's objects are deleted when the date is done.
    """
    job_log.expect_dates(len(tasks))
    core_count = session().sparkContext.defaultParallelism if tasks else 1
    total_bytes, median_bytes = sum(task.bytes for task in tasks), median(task.bytes for task in tasks) if tasks else 0
    split = [task for task in tasks if isinstance(task, AdoptTask) and is_split(task.bytes, total_bytes, core_count)]
    unsplit = [task for task in tasks if task not in split]
    with job_log.dates_at_work(len(unsplit)):
        with_threads = [_with_threads(task, threads_for(task, median_bytes)) for task in unsplit]
        found = map_dates(session, work, with_threads, description, _with_threads)
    results = dict(zip(unsplit, found, strict=True))
    for task in split:
        folder = storage.join(data_uri, "parts", task.day.isoformat())
        parts = PartTasks(session, f"{description} of [{task.day}]", folder)
        try:
            with job_log.dates_at_work(1):
                results[task] = work.with_parts(parts)(task)
        finally:  # delete what repeated tasks wrote, too
            for name in storage.list_objects(folder):
                storage.delete(storage.join(folder, name))
    return [results[task] for task in tasks]


def threads_for(task: Task, median_bytes: float) -> int:
    """How many threads read the date. `median_bytes`: the median size of all dates."""
    return _MAX_THREADS if task.bytes >= max(_MIN_LARGE_BYTES, _LARGE_FACTOR * median_bytes) else 1


def _with_threads(task: Task, threads: int) -> Task:
    """Return a task of plan adopt with `threads` threads, at most 4 and not fewer than before; other tasks as is."""
    if not isinstance(task, AdoptTask):
        return task
    return replace(task, threads=max(task.threads, min(threads, _MAX_THREADS)))


def is_split(date_bytes: int, total_bytes: int, core_count: int) -> bool:
    """Whether a date of plan adopt is split, because its task would end long after the others, even with more threads.

    A fair share is the size of all dates divided by the number of cores. A date is split if it is larger than
    (1 + cores / 4) fair shares, or than _MAX_FAIR_SHARES of them. With one core no date is split, nor is one smaller
    than _MIN_SPLIT_BYTES.
    """
    fair_shares = min(1 + core_count / 4, _MAX_FAIR_SHARES)
    return core_count > 1 and date_bytes >= _MIN_SPLIT_BYTES and date_bytes * core_count > fair_shares * total_bytes
