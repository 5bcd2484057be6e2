"""Splits the work on one large date into parts, for example groups of its files, and runs the parts in Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

from dedup_spark.execution.fan_out import TASKS_PER_CORE, run_tasks
from dedup_spark.execution.session import SessionSource

Item = TypeVar("Item")
Result = TypeVar("Result")

# Few, because the driver adds up the sketches of all parts, of up to 96 MB each (`KeySource.sketch`).
_MAX_PARTS = 64


@dataclass(frozen=True)
class PartTasks:
    """Runs parts of the work on one date in Spark tasks.

    `description`: names the date's work in Spark's UI, before the step. `folder_uri`: where tasks write results that
    are too large for the driver's memory.
    """

    session: SessionSource
    description: str
    folder_uri: str

    @property
    def core_count(self) -> int:
        return int(self.session().sparkContext.defaultParallelism)

    @property
    def part_count(self) -> int:
        """How many parts the files of the date are split into."""
        return min(self.core_count, _MAX_PARTS)

    def split(self, numbers: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
        """Divide files, given by their numbers, into parts of similar size; without files there is one empty part."""
        groups: list[list[int]] = [[] for _ in range(max(1, min(self.part_count, len(numbers))))]
        loads = [(0, group) for group in range(len(groups))]
        for size, number in sorted(zip(sizes, numbers, strict=True), reverse=True):
            load, group = heappop(loads)
            groups[group].append(number)
            heappush(loads, (load + size, group))
        return [sorted(group) for group in groups]

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], step: str, *, threads: int = 1
    ) -> list[Result]:
        """Return the results in the order of `items`. `threads`: how many items a task works on at a time.

        Spark may run a task several times, so each call of `function` must write under new unique names and return
        them, or write the same objects again. Raises the DedupCloneError that `function` raised.
        """
        if not items:
            return []
        task_count = min(len(items), self.core_count * TASKS_PER_CORE)
        return run_tasks(self.session, function, items, task_count, f"{self.description}: {step}", threads)
