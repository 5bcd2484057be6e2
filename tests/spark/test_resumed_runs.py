"""A run whose driver was lost is continued by the next run of the attempt: no date is read twice."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import job, storage
from dedup_spark.plans import saved_outcomes
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.rewrite.rewrite_date import RewriteDate
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, row

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def every_outcome_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_outcomes, "MIN_SAVED_SECONDS", 0.0)


class DriverLost(Exception):
    pass


def lose_driver(*_: object, **__: object) -> NoReturn:
    raise DriverLost


def rows(snapshot_id: int, *products: int, day: date = FIRST) -> list[dict[str, Any]]:
    return [row(snapshot_id, product, snapshot_id * 10, day=day) for product in products]


@pytest.fixture(params=[UpdateIdMode.LAST_SEEN, UpdateIdMode.LAST_CHANGED])
def area(tmp_path: Path, request: pytest.FixtureRequest) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, request.param)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """The dates that were worked on."""
    days: list[date] = []
    for plan in (AdoptDate, RewriteDate):
        for name in ("scan", "__call__"):
            work = getattr(plan, name)

            def counted(self: Any, task: Any, *rest: Any, _work: Any = work) -> Any:
                days.append(task.day)
                return _work(self, task, *rest)

            monkeypatch.setattr(plan, name, counted)
    return days


def lose_before_the_candidate(area: SparkJobFeed, request: DedupRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "copy_forward", lose_driver)
        with pytest.raises(DriverLost):
            area.run(request)


def second_request(area: SparkJobFeed) -> DedupRequest:
    """Of a snapshot that changes one date, lacks a key of it, and has the other date as it was."""
    area.publish(area.land(1, rows(1, *range(50)) + rows(1, 1, day=SECOND)))
    return area.request([area.land(2, [*rows(2, *range(1, 51)), row(2, 1, 10, day=SECOND)])])


def in_order(area: SparkJobFeed, candidate: Candidate) -> list[tuple[Any, ...]]:
    area.commit(candidate)
    return sorted(tuple(found.values()) for found in area.rows())


def test_the_next_run_goes_on_where_the_driver_was_lost(area: SparkJobFeed, scanned: list[date]) -> None:
    request = second_request(area)
    scanned.clear()
    lose_before_the_candidate(area, request)
    assert sorted(scanned) == [FIRST, SECOND]
    (lost,) = {name.split("/")[0] for name in storage.list_objects(request.data_uri)} - {"outcomes"}
    resumed = area.run(request)
    assert sorted(scanned) == [FIRST, SECOND]
    shutil.rmtree(storage.join(request.data_uri, lost))  # the candidate's folder is complete by itself
    found = in_order(area, resumed)
    fresh = replace(request, data_uri=f"{request.data_uri}fresh/", attempt_uri=f"{request.attempt_uri}fresh/")
    assert found == in_order(area, area.run(fresh))
    assert len(found) == 52
    area.publish(area.land(3, rows(3, *range(2, 51))))  # the fingerprints were copied too
    assert "stored" in area.entry(FIRST).plan_reason or "buckets" in area.entry(FIRST).plan_reason


def test_an_outcome_whose_files_are_gone_is_found_again(area: SparkJobFeed, scanned: list[date]) -> None:
    request = second_request(area)
    lose_before_the_candidate(area, request)
    scanned.clear()
    for name in storage.list_objects(request.data_uri):
        if not name.startswith("outcomes/"):
            storage.delete(storage.join(request.data_uri, name))
    assert len(in_order(area, area.run(request))) == 52
    assert FIRST in scanned


def test_a_damaged_record_is_not_used(area: SparkJobFeed, scanned: list[date]) -> None:
    request = second_request(area)
    lose_before_the_candidate(area, request)
    scanned.clear()
    folder = storage.join(request.data_uri, "outcomes")
    for name in storage.list_objects(folder):
        storage.write_text(storage.join(folder, name), "{}")
    assert len(in_order(area, area.run(request))) == 52
    assert sorted(scanned) == [FIRST, SECOND]


def test_the_outcome_of_a_quick_date_is_not_saved(area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of small dates, saving their outcomes would take as long as the dates themselves."""
    monkeypatch.setattr(saved_outcomes, "MIN_SAVED_SECONDS", 3600.0)
    request = second_request(area)
    lose_before_the_candidate(area, request)
    assert not storage.list_objects(storage.join(request.data_uri, "outcomes"))
    assert len(in_order(area, area.run(request))) == 52


def test_dates_that_are_rewritten_after_the_scan_are_kept_too(tmp_path: Path, scanned: list[date]) -> None:
    """Plan rewrite takes a late snapshot, whose dates no scan presumes."""
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=Plan.REWRITE)
    area.publish(area.land(2, rows(2, *range(50))))
    request = area.request([area.land(1, rows(1, *range(40, 60)))])
    scanned.clear()
    lose_before_the_candidate(area, request)
    assert scanned == [FIRST]
    assert len(in_order(area, area.run(request))) == 60
    assert scanned == [FIRST]
