"""Runs one function over many dates as one Spark job: small dates share a task, a large date has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Protocol, TypeVar

from dedup_spark.execution.fan_out import assign_round_robin, run_tasks, spare_cores
from dedup_spark.execution.session import SessionSource


class DateTask(Protocol):
    """One date of a plan. `bytes` is the size of the files that its work reads, as stored."""

    @property
    def day(self) -> date: ...

    @property
    def bytes(self) -> int: ...


AnyDateTask = TypeVar("AnyDateTask", bound=DateTask)
Result = TypeVar("Result")

# How many bytes of decoded keys a Spark task may hold in memory between two passes over a date's files.
HELD_BYTES = 128 << 20
# A Spark task costs a twentieth of a second before its first date.
_TASKS_PER_CORE = 4
_TASK_BYTES = 1 << 30


def map_dates(
    session: SessionSource,
    work: Callable[[AnyDateTask], Result],
    date_tasks: Sequence[AnyDateTask],
    description: str,
    with_threads: Callable[[AnyDateTask, int], AnyDateTask] = lambda date_task, threads: date_task,
) -> list[Result]:
    """Return the result of `work` for each of `date_tasks`, in their order, which should be `largest_first`.

    `with_threads(date_task, threads)` returns the date task with this many threads. It is called for tasks that start
    last, when other cores are free.
    """
    if not date_tasks:
        return []
    cores = session().sparkContext.defaultParallelism
    tasks = task_count(cores, len(date_tasks), sum(date_task.bytes for date_task in date_tasks))
    # Each Spark task gets dates of all sizes, and starts with its largest.
    batches = assign_round_robin(date_tasks, tasks)
    threads = spare_cores([sum(date_task.bytes for date_task in batch) for batch in batches], cores)
    items = [with_threads(date_task, threads[number % tasks]) for number, date_task in enumerate(date_tasks)]
    return run_tasks(session, work, items, tasks, f"{description} of {len(date_tasks)} dates")


def largest_first(date_tasks: Iterable[AnyDateTask]) -> list[AnyDateTask]:
    """Return the tasks in an order in which no long task starts last."""
    return sorted(date_tasks, key=lambda date_task: (-date_task.bytes, date_task.day))


def task_count(cores: int, dates: int, total_bytes: int) -> int:
    """Return the number of Spark tasks for so many dates of so many bytes in all."""
    return min(dates, max(cores * _TASKS_PER_CORE, total_bytes // _TASK_BYTES))
