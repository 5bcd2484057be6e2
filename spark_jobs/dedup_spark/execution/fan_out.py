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

# Enough tasks that all cores end at about the same time, and few enough that starting them takes little time.
TASKS_PER_CORE = 4

# `FanOut.map` starts _OBJECT_TASKS_PER_CORE tasks for each core, or one for each _BYTES_PER_TASK if that gives more.
# Objects up to _SMALL_OBJECT_BYTES on average are handled by several threads of a task, which mostly wait for the
# storage. Larger objects are handled one at a time, because each is in memory.
_OBJECT_TASKS_PER_CORE = 2
_BYTES_PER_TASK = 4 << 30
_SMALL_OBJECT_BYTES = 16 << 20
_THREADS_FOR_SMALL_OBJECTS = 8

_RESULT_SCHEMA = "item bigint, result binary"
_RESULT_ARROW = pa.schema([("item", pa.int64()), ("result", pa.binary())])


@dataclass(frozen=True)
class FanOut:
    """Runs functions over stored objects, in the tasks of one Spark session."""

    session: SessionSource

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], total_bytes: int, description: str
    ) -> list[Result]:
        """Return the results in the order of `items`. They are collected on the driver, so they should be small.

        `total_bytes`: the size of all objects that are read, by which the numbers of tasks and threads are chosen; 0 if
        nothing is read. Raises the DedupCloneError that `function` raised. Spark repeats a task after any other error.
        """
        if not items:
            return []
        core_count = self.session().sparkContext.defaultParallelism
        task_count = min(len(items), max(core_count * _OBJECT_TASKS_PER_CORE, total_bytes // _BYTES_PER_TASK))
        thread_count = _THREADS_FOR_SMALL_OBJECTS if total_bytes <= len(items) * _SMALL_OBJECT_BYTES else 1
        return run_tasks(self.session, function, items, task_count, description, thread_count)


def run_tasks(
    session: SessionSource,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    task_count: int,
    description: str,
    thread_count: int = 1,
) -> list[Result]:
    """Return the results in the order of `items`, which are assigned to the Spark tasks round robin.

    `description` names the job in Spark's UI and event log. `thread_count`: the threads of each task. Raises the
    DedupCloneError that `function` raised.
    """
    spark = session()
    spark.sparkContext.setJobDescription(description)
    batches = assign_round_robin([(n, pickle.dumps(item)) for n, item in enumerate(items)], task_count)
    worker = _Worker(function, batches, thread_count)
    rows = spark.range(0, task_count, 1, task_count).mapInArrow(worker.run, _RESULT_SCHEMA).collect()
    results: list[Any] = [None] * len(items)
    for row in rows:
        results[row.item] = pickle.loads(row.result)
    for result in results:
        if isinstance(result, _Failure):
            raise result.error
    return results


@dataclass(frozen=True)
class _Failure:
    """An error that the function raised, and would raise again if Spark repeated the task. So the task returns it."""

    error: DedupCloneError


@dataclass(frozen=True)
class _Worker(Generic[Item, Result]):
    """Runs the function inside a Spark task. `batches`: by task, the numbers of its items and the pickled items."""

    function: Callable[[Item], Result]
    batches: Sequence[Sequence[tuple[int, bytes]]]
    thread_count: int

    def run(self, task_rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield number and result of each item of the tasks whose numbers are in `task_rows`; Spark passes one row."""
        with ThreadPoolExecutor(self.thread_count) as pool:
            for task in (task for rows in task_rows for task in rows.column(0).to_pylist()):
                for number, result in pool.map(self._result, self.batches[task]):
                    yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([result])], schema=_RESULT_ARROW)

    def _result(self, numbered_item: tuple[int, bytes]) -> tuple[int, bytes]:
        number, item = numbered_item
        try:
            return number, pickle.dumps(self.function(pickle.loads(item)))
        except DedupCloneError as error:
            return number, pickle.dumps(_Failure(error))


def assign_round_robin(items: Sequence[Item], batch_count: int) -> list[Sequence[Item]]:
    """Return `items` in `batch_count` batches: each batch gets one item before any gets a second."""
    return [items[batch::batch_count] for batch in range(batch_count)]


def thread_counts(loads: Sequence[int], core_count: int) -> list[int]:
    """Return for each task how many threads it should have: above 1 only for the last ones, while other cores are idle.

    `loads`: how long each task takes, in any unit, in the order in which the tasks start. Example: thirteen equal tasks
    on two cores take as long as fourteen, unless the last one has two threads.
    """
    core_free_at = [0] * max(core_count, 1)
    starts, ends = [], []
    for load in loads:
        starts.append(heappop(core_free_at))
        ends.append(starts[-1] + load)
        heappush(core_free_at, ends[-1])
    ends.sort()
    return [max(1, core_count // max(1, len(ends) - bisect_right(ends, start))) for start in starts]
