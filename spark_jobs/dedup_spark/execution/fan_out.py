"""Runs one function over many items as one Spark job: `mapInArrow` over a DataFrame with one row for each task.

The function runs in Spark's Python workers. Each item gives one row of results, so that Spark's UI and event log count
the items that are done.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

import pyarrow as pa

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.execution.session import SessionSource

Item = TypeVar("Item")
Result = TypeVar("Result")

# A task costs some hundredths of a second: few of them, and with threads where the storage's answer takes longer than
# the work. Large objects come one at a time, for each is in memory.
_THREADS = 8
_TASKS_PER_CORE = 2
_TASK_BYTES = 4 << 30
_SMALL_BYTES = 16 << 20

_RESULT_SCHEMA = "item bigint, result binary"
_RESULT_ARROW = pa.schema([("item", pa.int64()), ("result", pa.binary())])


@dataclass(frozen=True)
class FanOut:
    """Runs functions over objects in the tasks of one Spark session."""

    session: SessionSource

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], total_bytes: int, description: str
    ) -> list[Result]:
        """Return the results in the order of `items`. They are collected on the driver, so they should be small.

        Raises the DedupCloneError that `function` raised. Spark repeats a task after any other error.
        """
        if not items:
            return []
        cores = self.session().sparkContext.defaultParallelism
        tasks = min(len(items), max(cores * _TASKS_PER_CORE, total_bytes // _TASK_BYTES))
        threads = _THREADS if total_bytes <= len(items) * _SMALL_BYTES else 1
        return run_tasks(self.session, function, items, tasks, description, threads)


def run_tasks(
    session: SessionSource,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    tasks: int,
    description: str,
    threads: int = 1,
) -> list[Result]:
    """Return the results in the order of `items`, which are assigned to the Spark tasks round robin.

    `description` names the job in Spark's UI and event log. Each task has `threads`. Raises what `FanOut.map` raises.
    """
    spark = session()
    spark.sparkContext.setJobDescription(description)
    batches = assign_round_robin([(n, pickle.dumps(item)) for n, item in enumerate(items)], tasks)
    worker = _Worker(function, batches, threads)
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(worker.run, _RESULT_SCHEMA).collect()
    results: list[Any] = [None] * len(items)
    for row in rows:
        results[row.item] = pickle.loads(row.result)
    for result in results:
        if isinstance(result, _Failure):
            raise result.error
    return results


@dataclass(frozen=True)
class _Failure:
    """An error of the function that a repeated task would get again."""

    error: DedupCloneError


@dataclass(frozen=True)
class _Worker(Generic[Item, Result]):
    """`batches` has for each Spark task the numbers of its items, and the items, pickled: it unpickles its own only."""

    function: Callable[[Item], Result]
    batches: Sequence[Sequence[tuple[int, bytes]]]
    threads: int

    def run(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take numbers of tasks, in Spark one; yield each item's number and result as soon as it is known."""
        with ThreadPoolExecutor(self.threads) as pool:
            for task in (task for rows in tasks for task in rows.column(0).to_pylist()):
                for number, result in pool.map(self._result, self.batches[task]):
                    yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([result])], schema=_RESULT_ARROW)

    def _result(self, numbered: tuple[int, bytes]) -> tuple[int, bytes]:
        number, item = numbered
        try:
            return number, pickle.dumps(self.function(pickle.loads(item)))
        except DedupCloneError as error:
            return number, pickle.dumps(_Failure(error))


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
