"""One function over many objects: in threads on the driver when they are few, as a Spark job when they are many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dedup_spark.execution.session import Spark

Item = TypeVar("Item")
Result = TypeVar("Result")

# A Spark job with Python workers costs about a second; a driver of two cores inspects 100 MB of Parquet in that time.
_DRIVER_ITEMS = 256
_DRIVER_BYTES = 256 << 20
_THREADS = 8
# A task costs a few tenths of a second in Python workers: few of them, and with threads where the storage's answer
# takes longer than the work. Large objects come one at a time, for each is in memory.
_TASKS_PER_CORE = 2
_TASK_BYTES = 4 << 30
_SMALL_BYTES = 16 << 20


def few_for_the_driver(items: int, total_bytes: int) -> bool:
    """Whether so many objects of so many bytes together are handled sooner without Spark."""
    return items <= _DRIVER_ITEMS and total_bytes <= _DRIVER_BYTES


def assign_round_robin(items: Sequence[Item], batches: int) -> list[Sequence[Item]]:
    """Distribute `items` over so many batches: each gets one item before any gets a second."""
    return [items[batch::batches] for batch in range(batches)]


def spare_cores(loads: Sequence[int], cores: int) -> list[int]:
    """For each task how many cores it has for itself: more than one only if it is among the last to start.

    `loads` are how long the tasks take, in any unit, in the order in which they start. Thirteen equal tasks on two
    cores take as long as fourteen, unless two threads share the last.
    """
    free = [0] * max(cores, 1)
    starts, ends = [], []
    for load in loads:
        starts.append(heappop(free))
        ends.append(starts[-1] + load)
        heappush(free, ends[-1])
    ends.sort()
    return [max(1, cores // max(1, len(ends) - bisect_right(ends, start))) for start in starts]


@dataclass(frozen=True)
class FanOut:
    """Spark is asked for only when a job of its is worth it."""

    spark: Spark

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], total_bytes: int, description: str
    ) -> list[Result]:
        """Results in the order of `items`. They come to the driver: let them be small."""
        if few_for_the_driver(len(items), total_bytes):
            with ThreadPoolExecutor(_THREADS) as pool:
                return list(pool.map(function, items))
        context = self.spark.context()
        context.setJobDescription(description)

        threads = _THREADS if total_bytes <= len(items) * _SMALL_BYTES else 1

        def each(part: Iterable[Item]) -> Iterable[Result]:
            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(function, part))

        slices = min(len(items), max(context.defaultParallelism * _TASKS_PER_CORE, total_bytes // _TASK_BYTES))
        return context.parallelize(items, slices).mapPartitions(each).collect()
