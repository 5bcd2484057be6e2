"""One function over many dates: in threads on the driver when they are small, as Spark tasks when they are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Generic, Protocol, TypeVar

from pyspark import SparkContext

from dedup_spark.fan_out import dealt, few_for_the_driver, spare_cores
from dedup_spark.progress import DateProgress, DriverProgress
from dedup_spark.session import Spark


class Order(Protocol):
    """What a call is told about its date. `objects` is how many files it touches, `bytes` their size."""

    @property
    def day(self) -> date: ...

    @property
    def objects(self) -> int: ...

    @property
    def bytes(self) -> int: ...


AnyOrder = TypeVar("AnyOrder", bound=Order)
Result = TypeVar("Result")

_DRIVER_THREADS = 4
# Decoded keys held between two passes over the files: of one date in a task, of several dates on the driver.
_HELD_BYTES = 128 << 20
_DRIVER_HELD_BYTES = 64 << 20
# A task costs a twentieth of a second before its first date: small dates share tasks, a large one has its own.
_TASKS_PER_CORE = 4
_TASK_BYTES = 1 << 30


@dataclass(frozen=True)
class _Reported(Generic[AnyOrder, Result]):
    """Tells the driver of each date that is done."""

    work: Callable[[AnyOrder], Result]
    finished: Callable[[date, int], None]

    def __call__(self, order: AnyOrder) -> Result:
        result = self.work(order)
        self.finished(order.day, 0)
        return result

    def all_of(self, orders: Sequence[AnyOrder]) -> list[Result]:
        return [self(order) for order in orders]


def over_dates(
    spark: Spark,
    work: Callable[[int], Callable[[AnyOrder], Result]],
    orders: Sequence[AnyOrder],
    description: str,
    say: Callable[[str], None],
    shared: Callable[[AnyOrder, int], AnyOrder] = lambda order, threads: order,
) -> list[Result]:
    """`work` makes the function, told how many bytes it may hold. Spark is asked for only if it is worth it.

    `shared` makes the order of a date that so many threads may work on, because other cores have nothing left to do.
    Results come in the order of `orders`, whose first should be the largest.
    """
    if not orders:
        return []
    dates = {order.day: 1 for order in orders}
    # Files count too: each is a request or more, however small it is.
    items = sum(1 + order.objects for order in orders)
    total_bytes = sum(order.bytes for order in orders)
    if few_for_the_driver(items, total_bytes):
        on_driver = DriverProgress(dates, say)
        task = _Reported(work(_DRIVER_HELD_BYTES), on_driver.finished)
        with on_driver.reporting(), ThreadPoolExecutor(min(_DRIVER_THREADS, os.cpu_count() or 1)) as pool:
            return list(pool.map(task, orders))
    context = spark.context()
    context.setJobDescription(f"{description} of {len(orders)} dates")
    progress = DateProgress(context, dates, say)
    task = _Reported(work(_HELD_BYTES), progress.reporter())
    tasks = tasks_for(context, len(orders), total_bytes)
    # So that each task gets dates of all sizes and starts with its largest.
    hands = dealt(orders, tasks)
    cores = spare_cores([sum(order.bytes for order in hand) for hand in hands], context.defaultParallelism)
    hands = [[shared(order, threads) for order in hand] for hand, threads in zip(hands, cores, strict=True)]
    with progress.reporting():
        made = context.parallelize(hands, tasks).map(task.all_of).collect()
    return [made[number % tasks][number // tasks] for number in range(len(orders))]


def tasks_for(context: SparkContext, dates: int, total_bytes: int) -> int:
    """How many tasks share so many dates."""
    return min(dates, max(context.defaultParallelism * _TASKS_PER_CORE, total_bytes // _TASK_BYTES))
