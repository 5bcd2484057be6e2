"""Many small dates share Spark tasks, and what tasks return, raise and import."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from dedup_clone.contract.errors import DeliveryRefused
from dedup_spark.execution.fan_out import map_objects, run_tasks
from dedup_spark.execution.progress import count_running_tasks
from testkit.waiting import wait_for

pytestmark = pytest.mark.spark

FIRST = date(2024, 1, 1)


@dataclass(frozen=True)
class Order:
    day: date
    bytes: int


@dataclass(frozen=True)
class Done:
    day: date
    task: int


def done(task: Order) -> Done:
    context = TaskContext.get()
    assert context
    return Done(task.day, context.partitionId())


def orders(first: int, last: int, size: int) -> list[Order]:
    return [Order(FIRST + timedelta(days=number), size) for number in range(first, last)]


def test_small_dates_share_tasks_and_large_ones_are_spread_over_them(spark: SparkSession) -> None:
    """There are four tasks for each of the session's two cores, or one for each large date."""
    mixed = orders(0, 8, 200 << 20) + orders(8, 300, 1_000)
    for tasks, count in ((orders(0, 300, 1_000), 8), (orders(0, 30, 2 << 30), 30), (mixed, 8)):
        found = run_tasks(lambda: spark, done, tasks, [task.bytes for task in tasks], "test")
        assert [one.day for one in found] == [task.day for task in tasks]
        assert len({one.task for one in found}) == count
    assert len({one.task for one in found[:8]}) == 8  # of the large ones, which come first there


def test_results_come_in_order_and_errors_of_this_project_as_they_were_raised(spark: SparkSession) -> None:
    """Workers import from no archive, whose directory Python would read again for each task."""

    def refuse(item: int) -> int:
        if item == 7:
            raise DeliveryRefused("object [seven] was replaced")
        return item * item

    def archives(_: int) -> list[str]:
        return [path for path in (*sys.path, *sys.path_importer_cache) if path.endswith((".zip", ".jar"))]

    fan_out = partial(map_objects, lambda: spark)
    assert fan_out(refuse, [*range(7), 8], [0] * 8, "test") == [*(n * n for n in range(7)), 64]
    assert fan_out(refuse, [], [], "test") == []
    with pytest.raises(DeliveryRefused, match=r"^object \[seven\] was replaced$"):
        fan_out(refuse, range(20), [0] * 20, "test")
    assert [path for path in fan_out(archives, [0], [0], "test")[0] if "pyspark" in path] == []


@dataclass(frozen=True)
class Noted:
    """An item that notes in a folder which task received it."""

    number: int
    folder: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return received, (self.number, self.folder)


def received(number: int, folder: Path) -> Noted:
    context = TaskContext.get()
    assert context
    (folder / f"{number}-{context.partitionId()}").touch()
    return Noted(number, folder)


def test_a_task_is_sent_its_own_items_only(spark: SparkSession, tmp_path: Path) -> None:
    items = [Noted(number, tmp_path) for number in range(20)]
    assert map_objects(lambda: spark, lambda item: item.number, items, [0] * 20, "test") == list(range(20))
    numbers = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert sorted(numbers) == list(range(20))


def test_while_a_slow_task_runs_the_tasks_that_are_done_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    may_end = tmp_path / "may_end"

    def work(item: int) -> int:
        if item == 2:
            wait_for(may_end.exists, "the test lets the slow task end", poll_interval_s=0.05)
        return item

    def counts() -> tuple[int, int]:
        return count_running_tasks(spark.sparkContext)

    with ThreadPoolExecutor(1) as driver:
        job = driver.submit(map_objects, lambda: spark, work, range(4), [0] * 4, "test")
        wait_for(lambda: counts() == (3, 4), "all tasks but the slow one are done", 60, poll_interval_s=0.05)
        may_end.touch()
        assert job.result() == [0, 1, 2, 3]
    wait_for(lambda: counts() == (0, 0), "no job runs", 60, poll_interval_s=0.05)
