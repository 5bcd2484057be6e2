"""Runs one function over many objects or dates as one Spark job. A task is sent only its own items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any, Generic, Protocol, TypeVar

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.execution.session import SessionSource

Item = TypeVar("Item")
Result = TypeVar("Result")


class DateTask(Protocol):
    """The task of a plan for one date. `bytes`: the stored size of the files that the task reads."""

    @property
    def day(self) -> date: ...

    @property
    def bytes(self) -> int: ...


AnyDateTask = TypeVar("AnyDateTask", bound=DateTask)

# Enough tasks that all cores end at about the same time, and few enough that starting them takes little time.
TASKS_PER_CORE = 4

# `map_objects` starts _OBJECT_TASKS_PER_CORE tasks for each core, or one for each _OBJECT_BYTES_PER_TASK if that gives
# more. Objects up to _SMALL_OBJECT_BYTES on average are handled by several threads of a task, which mostly wait for the
# storage. Larger objects are handled one at a time, because each is in memory.
_OBJECT_TASKS_PER_CORE = 2
_OBJECT_BYTES_PER_TASK = 4 << 30
_SMALL_OBJECT_BYTES = 16 << 20
_THREADS_FOR_SMALL_OBJECTS = 8

# `map_dates` starts TASKS_PER_CORE tasks for each core, or one for each _DATE_BYTES_PER_TASK if that gives more: few,
# because starting a Spark task takes a twentieth of a second.
_DATE_BYTES_PER_TASK = 1 << 30
# The most bytes of key codes that a Spark task caches between two passes over a date's files.
KEY_CACHE_BYTES = 128 << 20


def map_objects(
    session: SessionSource,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    total_bytes: int,
    description: str,
) -> list[Result]:
    """Return the results of the function on stored objects, in the order of `items`. The driver collects them.

    `total_bytes`: the size of all objects that are read, by which the numbers of tasks and threads are chosen; 0 if
    nothing is read. Raises the DedupCloneError that `function` raised. Spark repeats a task after any other error.
    """
    if not items:
        return []
    core_count = session().sparkContext.defaultParallelism
    task_count = min(len(items), max(core_count * _OBJECT_TASKS_PER_CORE, total_bytes // _OBJECT_BYTES_PER_TASK))
    thread_count = _THREADS_FOR_SMALL_OBJECTS if total_bytes <= len(items) * _SMALL_OBJECT_BYTES else 1
    return run_tasks(session, function, items, task_count, description, thread_count)


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
    context = session().sparkContext
    context.setJobDescription(description)
    batches = assign_round_robin(list(enumerate(items)), task_count)
    worker = _Worker(function, thread_count)
    results: list[Any] = [None] * len(items)
    for number, result in context.parallelize(batches, task_count).mapPartitions(worker.run).collect():
        results[number] = result
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
    """Runs the function inside a Spark task."""

    function: Callable[[Item], Result]
    thread_count: int

    def run(self, batches: Iterable[Sequence[tuple[int, Item]]]) -> Iterator[tuple[int, Result | _Failure]]:
        """Yield number and result of each item. `batches`: the task's numbered items; Spark passes one batch."""
        with ThreadPoolExecutor(self.thread_count) as pool:
            for batch in batches:
                yield from pool.map(self._result, batch)

    def _result(self, numbered_item: tuple[int, Item]) -> tuple[int, Result | _Failure]:
        number, item = numbered_item
        try:
            return number, self.function(item)
        except DedupCloneError as error:
            return number, _Failure(error)


def assign_round_robin(items: Sequence[Item], batch_count: int) -> list[Sequence[Item]]:
    """Return `items` in `batch_count` batches: each batch gets one item before any gets a second."""
    return [items[batch::batch_count] for batch in range(batch_count)]


def map_dates(
    session: SessionSource,
    work: Callable[[AnyDateTask], Result],
    date_tasks: Sequence[AnyDateTask],
    description: str,
) -> list[Result]:
    """Return the result of `work` for each of `date_tasks`, in their order, which should be that of `largest_first`."""
    if not date_tasks:
        return []
    core_count = session().sparkContext.defaultParallelism
    spark_task_count = task_count(core_count, len(date_tasks), sum(date_task.bytes for date_task in date_tasks))
    # Each Spark task gets dates of all sizes, and starts with its largest.
    return run_tasks(session, work, date_tasks, spark_task_count, f"{description} of {len(date_tasks)} dates")


def largest_first(date_tasks: Iterable[AnyDateTask]) -> list[AnyDateTask]:
    """Return the tasks by descending size in bytes, so that no long task starts last."""
    return sorted(date_tasks, key=lambda date_task: (-date_task.bytes, date_task.day))


def task_count(core_count: int, date_count: int, total_bytes: int) -> int:
    """Return the number of Spark tasks for `date_count` dates, whose files have `total_bytes` together."""
    return min(date_count, max(core_count * TASKS_PER_CORE, total_bytes // _DATE_BYTES_PER_TASK))
