"""Many small dates share Spark tasks: each result still belongs to its own date."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from dedup_clone.contract.errors import DeliveryRefused
from dedup_spark.execution.date_fan_out import map_dates
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.execution.progress_report import count_running_tasks
from testkit.waiting import wait_for

pytestmark = pytest.mark.spark

FIRST = date(2024, 1, 1)


@dataclass(frozen=True)
class Order:
    day: date
    bytes: int
    threads: int = 1


@dataclass(frozen=True)
class Done:
    day: date
    task: int


def done(task: Order) -> Done:
    context = TaskContext.get()
    assert context
    return Done(task.day, context.partitionId())


def run(spark: SparkSession, tasks: list[Order]) -> list[Done]:
    return map_dates(lambda: spark, done, tasks, "test")


def test_many_small_dates_share_tasks_and_results_come_in_the_order_of_the_dates(spark: SparkSession) -> None:
    tasks = [Order(FIRST + timedelta(days=number), bytes=1_000) for number in range(300)]
    done = run(spark, tasks)
    assert [one.day for one in done] == [task.day for task in tasks]
    assert len({one.task for one in done}) == 8  # four for each of the session's two cores


def test_large_dates_have_a_task_each(spark: SparkSession) -> None:
    tasks = [Order(FIRST + timedelta(days=number), bytes=2 << 30) for number in range(30)]
    assert len({one.task for one in run(spark, tasks)}) == 30


def test_the_largest_dates_are_assigned_to_different_tasks_and_come_first_there(spark: SparkSession) -> None:
    large = [Order(FIRST + timedelta(days=number), bytes=200 << 20) for number in range(8)]
    small = [Order(FIRST + timedelta(days=number), bytes=1_000) for number in range(8, 300)]
    done = run(spark, [*large, *small])
    assert len({one.task for one in done[:8]}) == 8


def test_only_the_date_that_runs_last_and_alone_is_shared_between_the_cores(spark: SparkSession) -> None:
    tasks = [Order(FIRST + timedelta(days=number), bytes=1 << 29) for number in range(13)]

    def shared(task: Order, threads: int) -> Order:
        return replace(task, threads=threads)

    found = map_dates(lambda: spark, lambda task: task.threads, tasks, "test", shared)
    assert sorted(found) == [1] * 12 + [2]


def test_results_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    assert FanOut(lambda: spark).map(lambda item: item * item, range(100), 0, "test") == [n * n for n in range(100)]
    assert FanOut(lambda: spark).map(lambda item: item, [], 0, "test") == []


def test_an_error_of_this_project_reaches_the_driver_as_it_was_raised(spark: SparkSession) -> None:
    def refuse(item: int) -> int:
        if item == 7:
            raise DeliveryRefused("object [seven] was replaced")
        return item

    with pytest.raises(DeliveryRefused, match=r"^object \[seven\] was replaced$"):
        FanOut(lambda: spark).map(refuse, range(20), 0, "test")


def test_workers_import_from_no_archive(spark: SparkSession) -> None:
    """Python would read the archive's directory again for each task."""

    def archives(_: int) -> list[str]:
        return [path for path in (*sys.path, *sys.path_importer_cache) if path.endswith((".zip", ".jar"))]

    found = FanOut(lambda: spark).map(archives, [0], 0, "test")
    assert [path for path in found[0] if "pyspark" in path] == []


def test_while_a_slow_task_runs_the_tasks_that_are_done_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    may_end = tmp_path / "may_end"

    def work(item: int) -> int:
        if item == 2:
            wait_for(may_end.exists, "the test lets the slow task end", poll_interval_s=0.05)
        return item

    def counts() -> tuple[int, int]:
        return count_running_tasks(spark.sparkContext)

    with ThreadPoolExecutor(1) as driver:
        job = driver.submit(FanOut(lambda: spark).map, work, range(4), 0, "test")
        wait_for(lambda: counts() == (3, 4), "all tasks but the slow one are done", 60, poll_interval_s=0.05)
        may_end.touch()
        assert job.result() == [0, 1, 2, 3]
    wait_for(lambda: counts() == (0, 0), "no job runs", 60, poll_interval_s=0.05)
