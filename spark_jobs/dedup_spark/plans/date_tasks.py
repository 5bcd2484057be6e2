"""Runs the tasks of many dates: small dates share a Spark task, and a date far larger than the others has many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from dedup_spark import storage
from dedup_spark.execution.date_fan_out import map_dates
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.adopt.adopt_task_builder import with_spare_threads
from dedup_spark.plans.scanned_date import Task

Result = TypeVar("Result", covariant=True)

# Splitting costs some Spark jobs, and sums that the driver adds up: a smaller date is done sooner without it.
_SPLIT_BYTES = 256 << 20
_MAX_SHARES = 16.0


class DateWork(Protocol[Result]):
    """Work on one date, in a Spark task, or on the driver if it `with_parts`."""

    def __call__(self, task: Task, /) -> Result: ...

    def with_parts(self, parts: PartTasks) -> DateWork[Result]: ...


def run_tasks_of_dates(
    session: SessionSource, work: DateWork[Result], tasks: Sequence[Task], description: str, data_uri: str
) -> list[Result]:
    """Return the results in the order of `tasks`. Parts of a split date have a folder below `data_uri` meanwhile."""
    cores = session().sparkContext.defaultParallelism if tasks else 1
    total = sum(task.bytes for task in tasks)
    split = [task for task in tasks if isinstance(task, AdoptTask) and is_split(task.bytes, total, cores)]
    if not split:
        return map_dates(session, work, tasks, description, with_spare_threads)
    rest = [task for task in tasks if task not in split]
    results = dict(zip(rest, map_dates(session, work, rest, description, with_spare_threads), strict=True))
    for task in split:
        folder = storage.join(data_uri, "parts", task.day.isoformat())
        parts = PartTasks(session, f"{description} of [{task.day}]", folder)
        try:
            results[task] = work.with_parts(parts)(task)
        finally:  # with what repeated tasks left
            for name in storage.list_objects(folder):
                storage.delete(storage.join(folder, name))
    return [results[task] for task in tasks]


def is_split(date_bytes: int, total: int, cores: int) -> bool:
    """Whether a date is divided into parts: alone it would keep the other cores waiting, even with threads of its own.

    `total` is the size of all dates.
    """
    fair_shares = min(1 + cores / 4, _MAX_SHARES)
    return cores > 1 and date_bytes >= _SPLIT_BYTES and date_bytes * cores > fair_shares * total
