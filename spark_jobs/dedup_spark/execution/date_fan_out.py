"""Runs one function over many dates as one Spark job. Each task has dates of all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Protocol, TypeVar

from dedup_spark.execution.fan_out import TASKS_PER_CORE, assign_round_robin, run_tasks, thread_counts
from dedup_spark.execution.session import SessionSource


class DateTask(Protocol):
    """The task of a plan for one date. `bytes`: the stored size of the files that the task reads."""

    @property
    def day(self) -> date: ...

    @property
    def bytes(self) -> int: ...


AnyDateTask = TypeVar("AnyDateTask", bound=DateTask)
Result = TypeVar("Result")

# The most bytes of key codes that a Spark task caches between two passes over a date's files.
KEY_CACHE_BYTES = 128 << 20
# Starting a Spark task takes a twentieth of a second, so there are few: TASKS_PER_CORE for each core, or one for each
# _BYTES_PER_TASK if that gives more.
_BYTES_PER_TASK = 1 << 30


def map_dates(
    session: SessionSource,
    work: Callable[[AnyDateTask], Result],
    date_tasks: Sequence[AnyDateTask],
    description: str,
    with_threads: Callable[[AnyDateTask, int], AnyDateTask] = lambda date_task, thread_count: date_task,
) -> list[Result]:
    """Return the result of `work` for each of `date_tasks`, in their order, which should be that of `largest_first`.

    `with_threads(date_task, thread_count)` returns the date task with this many threads. The count is above 1
    only for dates of the Spark tasks that start last, when other cores are free.
    """
    if not date_tasks:
        return []
    core_count = session().sparkContext.defaultParallelism
    spark_task_count = task_count(core_count, len(date_tasks), sum(date_task.bytes for date_task in date_tasks))
    # Each Spark task gets dates of all sizes, and starts with its largest.
    batches = assign_round_robin(date_tasks, spark_task_count)
    threads_by_task = thread_counts([sum(date_task.bytes for date_task in batch) for batch in batches], core_count)
    items = [with_threads(date_task, threads_by_task[n % spark_task_count]) for n, date_task in enumerate(date_tasks)]
    return run_tasks(session, work, items, spark_task_count, f"{description} of {len(date_tasks)} dates")


def largest_first(date_tasks: Iterable[AnyDateTask]) -> list[AnyDateTask]:
    """Return the tasks by descending size in bytes, so that no long task starts last."""
    return sorted(date_tasks, key=lambda date_task: (-date_task.bytes, date_task.day))


def task_count(core_count: int, date_count: int, total_bytes: int) -> int:
    """Return the number of Spark tasks for `date_count` dates, whose files have `total_bytes` together."""
    return min(date_count, max(core_count * TASKS_PER_CORE, total_bytes // _BYTES_PER_TASK))
