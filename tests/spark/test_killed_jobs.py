"""`kill -9` at any moment of a job leaves no candidate or a right one, and the next attempt makes the right table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_clone.contract.request import Plan
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.job_process import DONE, FAILED, JobProcess, ProcessArea
from tests.spark.product_rows import FIRST, row
from tests.thoroughness import times

pytestmark = pytest.mark.spark

DATES, KILLS = times(10, 40), times(2, 20)


@pytest.fixture(scope="module")
def process() -> Iterator[JobProcess]:
    """Shared: its start costs more than its jobs. The last test kills it."""
    with JobProcess() as process:
        yield process


def rows(snapshot_id: int, first: int, last: int) -> list[dict[str, Any]]:
    return [
        row(snapshot_id, product, snapshot_id * 10 + product, day=FIRST + timedelta(days=day))
        for day in range(DATES)
        for product in range(first, last)
    ]


def area_at(folder: Path, process: JobProcess) -> tuple[ProcessArea, Arrival]:
    """A feed whose next snapshot lacks a key of every date and brings another."""
    area = ProcessArea(None, str(folder / "landing"), str(folder / "state"), PRODUCTS, plan=Plan.ADOPT)
    area.process = process
    area.publish(area.land(1, rows(1, 0, 20)))
    return area, area.land(2, rows(2, 1, 21))


def in_order(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in found)


EXPECTED = in_order(rows(1, 0, 1) + rows(2, 1, 21))


def kill_during_job(area: ProcessArea, arrival: Arrival, seconds: float, kill: Callable[[], object]) -> None:
    """What is left of the attempt is nothing, or all of it."""
    request = area.request([arrival])
    area.begin(request)
    time.sleep(random.uniform(0, seconds))
    kill()
    answer = area.process.answer()
    uri = area.candidate_uri(request)
    is_left = storage.exists(uri)
    assert (answer, is_left) in {(DONE, True), (FAILED, False), ("", True), ("", False)}
    if is_left:
        before = area.manifest, area.parent
        area.commit(from_json(Candidate, storage.read_text(uri), where=uri))
        assert in_order(area.rows()) == EXPECTED
        area.manifest, area.parent = before


def seconds_of(area: ProcessArea, arrival: Arrival) -> float:
    began = time.monotonic()
    area.run(area.request([arrival]))
    return time.monotonic() - began


@pytest.mark.exhaustive
def test_a_job_whose_workers_are_killed_can_be_run_again(tmp_path: Path, process: JobProcess) -> None:
    area, arrival = area_at(tmp_path, process)
    seconds = seconds_of(area, arrival)
    assert process.workers()
    for _ in range(KILLS):
        kill_during_job(area, arrival, seconds, process.kill_workers)
    area.publish(arrival)
    assert in_order(area.rows()) == EXPECTED


def test_a_job_whose_driver_is_killed_can_be_run_again(tmp_path: Path, process: JobProcess) -> None:
    area, arrival = area_at(tmp_path, process)
    kill_during_job(area, arrival, seconds_of(area, arrival), process.kill_driver)
    area.commit(SparkJobFeed.run(area, area.request([arrival])))  # by another driver: the test's own process
    assert in_order(area.rows()) == EXPECTED
