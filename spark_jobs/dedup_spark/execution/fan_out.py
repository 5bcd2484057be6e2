"""Runs one function over many objects or dates as one Spark job, whose tasks read about as many bytes each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.execution.session import SessionSource

Item = TypeVar("Item")
Result = TypeVar("Result")

# There are this many tasks for each core, or one for each _TASK_BYTES if these are more: enough that all cores end at
# about the same time, and few, because starting a Spark task takes a twentieth of a second.
TASKS_PER_CORE = 4
_TASK_BYTES = 1 << 30
# To handle an item takes as long as to read about so many bytes, however small it is.
_ITEM_BYTES = 1 << 20
# Objects up to _SMALL_OBJECT_BYTES on average are handled by several threads of a task, which mostly wait for the
# storage. Larger objects are handled one at a time, because each is in memory.
_SMALL_OBJECT_BYTES = 16 << 20
_THREADS_FOR_SMALL_OBJECTS = 8


def map_objects(
    session: SessionSource,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    sizes: Sequence[int],
    description: str,
) -> list[Result]:
    """Return what `run_tasks` does, for a function that may run in several threads, on stored objects."""
    thread_count = _THREADS_FOR_SMALL_OBJECTS if sum(sizes) <= len(items) * _SMALL_OBJECT_BYTES else 1
    return run_tasks(session, function, items, sizes, description, thread_count)


def run_tasks(
    session: SessionSource,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    sizes: Sequence[int],
    description: str,
    thread_count: int = 1,
) -> list[Result]:
    """Return the results in the order of `items`. The driver collects them.

    `sizes`: how many bytes are read for each item. A task is sent only its own items, and starts with the largest.
    `description` names the job in Spark's UI and event log, with the number of items. `thread_count`: the threads of
    each task. Raises the DedupCloneError that `function` raised. Spark repeats a task after any other error.
    """
    if not items:
        return []
    context = session().sparkContext
    context.setJobDescription(f"{description}: {len(items)}")
    bins = [[(number, items[number]) for number in one] for one in divide(sizes, context.defaultParallelism)]
    worker = _Worker(function, thread_count)
    results: list[Any] = [None] * len(items)
    for number, result in context.parallelize(bins, len(bins)).mapPartitions(worker.run).collect():
        results[number] = result
    for result in results:
        if isinstance(result, _Failure):
            raise result.error
    return results


def divide(sizes: Sequence[int], core_count: int) -> list[list[int]]:
    """Divide items of these sizes over tasks, so that each reads about as many bytes. Return their numbers by task."""
    return divide_into(min(len(sizes), max(core_count * TASKS_PER_CORE, sum(sizes) // _TASK_BYTES)), sizes)


def divide_into(task_count: int, sizes: Sequence[int]) -> list[list[int]]:
    """Divide items of these sizes over so many tasks."""
    tasks: list[list[int]] = [[] for _ in range(task_count)]
    loads = [(0, task) for task in range(task_count)]
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        load, task = heappop(loads)
        tasks[task].append(number)
        heappush(loads, (load + sizes[number] + _ITEM_BYTES, task))
    return tasks


@dataclass(frozen=True)
class _Failure:
    """An error that the function raised, and would raise again if Spark repeated the task. So the task returns it."""

    error: DedupCloneError


@dataclass(frozen=True)
class _Worker(Generic[Item, Result]):
    """Runs the function inside a Spark task."""

    function: Callable[[Item], Result]
    thread_count: int

    def run(self, bins: Iterable[Sequence[tuple[int, Item]]]) -> Iterator[tuple[int, Result | _Failure]]:
        """Yield number and result of each item. `bins`: Spark passes one, with the task's numbered items."""
        with ThreadPoolExecutor(self.thread_count) as pool:
            for items in bins:
                yield from pool.map(self._result, items)

    def _result(self, numbered_item: tuple[int, Item]) -> tuple[int, Result | _Failure]:
        number, item = numbered_item
        try:
            return number, self.function(item)
        except DedupCloneError as error:
            return number, _Failure(error)
