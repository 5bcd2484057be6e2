"""Runs the work on one large date as Spark tasks of its parts, for example of some of its files each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dedup_spark.execution.fan_out import run_tasks
from dedup_spark.execution.session import SessionSource

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each part of the first pass writes sums of up to 117 MB, which the driver adds up.
_MAX_PARTS = 64
_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class PartTasks:
    """Spark tasks for the parts of one date. What is too large for the driver's memory they leave in `folder_uri`."""

    session: SessionSource
    description: str
    folder_uri: str

    @property
    def cores(self) -> int:
        return int(self.session().sparkContext.defaultParallelism)

    @property
    def parts(self) -> int:
        """How many parts a date's files are divided into."""
        return min(self.cores, _MAX_PARTS)

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], step: str, *, threads: int = 1
    ) -> list[Result]:
        """Return the results in the order of `items`. Raises what `FanOut.map` raises.

        Spark may run a task several times: `function` must name anew what it writes, and return the names.
        """
        if not items:
            return []
        tasks = min(len(items), self.cores * _TASKS_PER_CORE)
        return run_tasks(self.session, function, items, tasks, f"{self.description}: {step}", threads)
