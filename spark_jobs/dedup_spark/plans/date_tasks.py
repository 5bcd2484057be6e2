"""Runs the tasks of many dates: small dates share a Spark task, and a date far larger than the others has many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from dedup_spark import storage
from dedup_spark.execution.date_fan_out import map_dates
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.adopt.adopt_task_builder import with_spare_threads
from dedup_spark.plans.scanned_date import Task

Result = TypeVar("Result", covariant=True)

# Splitting a date costs several Spark jobs, and sums that the driver adds up. A smaller date is faster without it.
_MIN_SPLIT_BYTES = 256 << 20
# A date of more fair shares than this (see `is_split`) is split, whatever the number of cores.
_MAX_FAIR_SHARES = 16.0


class DateWork(Protocol[Result]):
    """The work on one date. It runs in a Spark task."""

    def __call__(self, task: Task, /) -> Result: ...

    def with_parts(self, parts: PartTasks) -> DateWork[Result]:
        """Return the same work for the driver, which leaves parts of it to Spark tasks."""


def run_tasks_of_dates(
    session: SessionSource,
    work: DateWork[Result],
    tasks: Sequence[Task],
    description: str,
    data_uri: str,
    job_log: JobLog,
) -> list[Result]:
    """Return the results in the order of `tasks`. While a split date runs, it has a folder below `data_uri`."""
    job_log.expect_dates(len(tasks))
    core_count = session().sparkContext.defaultParallelism if tasks else 1
    total_bytes = sum(task.bytes for task in tasks)
    split = [task for task in tasks if isinstance(task, AdoptTask) and is_split(task.bytes, total_bytes, core_count)]
    unsplit = [task for task in tasks if task not in split]
    with job_log.dates_at_work(len(unsplit)):
        found = map_dates(session, work, unsplit, description, with_spare_threads)
    results = dict(zip(unsplit, found, strict=True))
    for task in split:
        folder = storage.join(data_uri, "parts", task.day.isoformat())
        parts = PartTasks(session, f"{description} of [{task.day}]", folder)
        try:
            with job_log.dates_at_work(1):
                results[task] = work.with_parts(parts)(task)
        finally:  # also deletes what repeated tasks have left
            for name in storage.list_objects(folder):
                storage.delete(storage.join(folder, name))
    return [results[task] for task in tasks]


def is_split(date_bytes: int, total_bytes: int, core_count: int) -> bool:
    """Whether a date is split into parts: its task would otherwise end long after the others, even with threads.

    A fair share is the size of all dates divided by the number of cores. A date is split if it is larger than 1.5 fair
    shares with two cores, and one more for each further four cores.
    """
    fair_shares = min(1 + core_count / 4, _MAX_FAIR_SHARES)
    return core_count > 1 and date_bytes >= _MIN_SPLIT_BYTES and date_bytes * core_count > fair_shares * total_bytes
