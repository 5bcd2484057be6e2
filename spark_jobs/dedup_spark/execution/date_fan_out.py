"""One function over many dates: in threads on the driver when they are small, as Spark tasks when they are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Generic, Protocol, TypeVar

from pyspark import SparkContext

from dedup_spark.execution.fan_out import assign_round_robin, few_for_the_driver, spare_cores
from dedup_spark.execution.progress import DriverProgress, SparkProgress
from dedup_spark.execution.session import Spark


class DateTask(Protocol):
    """One date of a plan. `objects` is how many files its work reads, `bytes` their size as stored."""

    @property
    def day(self) -> date: ...

    @property
    def objects(self) -> int: ...

    @property
    def bytes(self) -> int: ...


AnyDateTask = TypeVar("AnyDateTask", bound=DateTask)
Result = TypeVar("Result")

_DRIVER_THREADS = 4
# Decoded keys held between two passes over the files: of one date in a Spark task, of several dates on the driver.
_HELD_BYTES = 128 << 20
_DRIVER_HELD_BYTES = 64 << 20
# A Spark task costs a twentieth of a second before its first date: small dates share one, a large date has its own.
_TASKS_PER_CORE = 4
_TASK_BYTES = 1 << 30


@dataclass(frozen=True)
class _Reporting(Generic[AnyDateTask, Result]):
    """Reports each finished date to the driver."""

    work: Callable[[AnyDateTask], Result]
    finished: Callable[[date, int], None]

    def __call__(self, date_task: AnyDateTask) -> Result:
        result = self.work(date_task)
        self.finished(date_task.day, 0)
        return result

    def all_of(self, batch: Sequence[AnyDateTask]) -> list[Result]:
        return [self(date_task) for date_task in batch]


def over_dates(
    spark: Spark,
    work: Callable[[int], Callable[[AnyDateTask], Result]],
    date_tasks: Sequence[AnyDateTask],
    description: str,
    log: Callable[[str], None],
    with_threads: Callable[[AnyDateTask, int], AnyDateTask] = lambda date_task, threads: date_task,
) -> list[Result]:
    """Return one result for each of `date_tasks`, in their order, which should be `largest_first`.

    `work(held_bytes)` returns the function that is called with each date task; `held_bytes` is how much decoded data
    it may hold. `with_threads(date_task, threads)` returns the date task for use by so many threads, where other cores
    have nothing left to do. Spark is started only where the work is worth it.
    """
    if not date_tasks:
        return []
    dates = {date_task.day: 1 for date_task in date_tasks}
    # Files count too: each is a request or more, however small it is.
    items = sum(1 + date_task.objects for date_task in date_tasks)
    total_bytes = sum(date_task.bytes for date_task in date_tasks)
    if few_for_the_driver(items, total_bytes):
        on_driver = DriverProgress(dates, log)
        reported = _Reporting(work(_DRIVER_HELD_BYTES), on_driver.finished)
        with on_driver.reporting(), ThreadPoolExecutor(min(_DRIVER_THREADS, os.cpu_count() or 1)) as pool:
            return list(pool.map(reported, date_tasks))
    context = spark.context()
    context.setJobDescription(f"{description} of {len(date_tasks)} dates")
    progress = SparkProgress(context, dates, log)
    reported = _Reporting(work(_HELD_BYTES), progress.reporter())
    tasks = tasks_for(context, len(date_tasks), total_bytes)
    # Round robin, so that each Spark task gets dates of all sizes and starts with its largest.
    batches = assign_round_robin(date_tasks, tasks)
    cores = spare_cores([sum(date_task.bytes for date_task in batch) for batch in batches], context.defaultParallelism)
    batches = [[with_threads(t, threads) for t in batch] for batch, threads in zip(batches, cores, strict=True)]
    with progress.reporting():
        results = context.parallelize(batches, tasks).map(reported.all_of).collect()
    return [results[number % tasks][number // tasks] for number in range(len(date_tasks))]


def largest_first(date_tasks: Iterable[AnyDateTask]) -> list[AnyDateTask]:
    """Return the tasks in an order in which no long task starts last."""
    return sorted(date_tasks, key=lambda date_task: (-date_task.bytes, date_task.day))


def tasks_for(context: SparkContext, dates: int, total_bytes: int) -> int:
    """Return the number of Spark tasks for so many dates of so many bytes in all."""
    return min(dates, max(context.defaultParallelism * _TASKS_PER_CORE, total_bytes // _TASK_BYTES))
