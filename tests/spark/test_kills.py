"""A job that is killed at any moment leaves no candidate or a right one, and its next run makes the right table."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import job as job_module
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle
from tests.spark.job_process import DONE, FAILED, JobProcess, ProcessArea
from tests.spark.product_rows import FIRST, SECOND, found, row, rows
from tests.thoroughness import every_third, times

WRITES = ("open_output", "create_text", "copy", "copy_frozen", "delete")
LAST_SEEN, LAST_CHANGED = UpdateIdMode.LAST_SEEN, UpdateIdMode.LAST_CHANGED


class Killed(BaseException):
    """Stands for the end of the process. It is no Exception, so that no code that handles errors catches it."""


@contextmanager
def counted_writes(killed_before: int | None = None) -> Iterator[Callable[[], int]]:
    """Counts the job's writes, or raises `Killed` instead of the write with this number (from 1) and all later ones."""
    numbers, seen = itertools.count(1), [0]

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            seen[0] = next(numbers)
            if killed_before and seen[0] >= killed_before:
                raise Killed
            return write(*arguments, **named)

        return call

    with ExitStack() as patches:
        for name in WRITES:
            patches.enter_context(patch.object(storage, name, counted(getattr(storage, name))))
        yield lambda: seen[0]


def candidate_of(attempt: Attempt) -> Candidate | None:
    uri = storage.join(attempt.folder_uri, "candidate.json")
    return from_json(Candidate, storage.read_text(uri), where=uri) if storage.exists(uri) else None


THIRD = SECOND + timedelta(days=1)


@pytest.mark.parametrize(
    ("plan", "mode"), [(Plan.AUTO, LAST_SEEN), (Plan.AUTO, LAST_CHANGED), (Plan.REWRITE, LAST_SEEN)]
)
def test_a_job_that_is_killed_before_any_write_can_be_run_again(tmp_path: Path, plan: Plan, mode: UpdateIdMode) -> None:
    """The snapshot lacks, adds and changes keys of one date, has another as it was, and lacks the third."""
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, mode, with_changes=True)
    job = JobAgainstOracle(feed)
    job.play([*rows(1, *range(50)), row(1, 1, 1, SECOND), row(1, 2, 2, THIRD)])
    live = feed.manifest, feed.parent
    before = job.state
    job.land(2, [*(row(2, n, 10 + n % 2) for n in range(3, 53)), row(2, 1, 1, SECOND)])
    job.publish(2, plan=plan)
    after = job.state
    feed.manifest, feed.parent = live
    attempt = job.attempt(2)
    with counted_writes() as count:
        feed.run(attempt)
    for number in every_third(range(1, count() + 1)):
        feed.manifest, feed.parent = live
        job.state = before
        attempt = job.attempt(2)
        with counted_writes(killed_before=number), pytest.raises(Killed):
            feed.run(attempt)
        left = candidate_of(attempt)
        candidate = feed.run(attempt)
        assert left in (None, candidate)
        job.commit(candidate, after)


def test_of_two_runs_of_one_request_the_first_to_finish_counts(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan finishes first while a retry is under way: the retry finds the candidate when it is done."""
    attempt = area.attempt([area.land(1, rows(1, 1))])
    orphan: list[Candidate] = []
    copy_forward = job_module.copy_forward

    def copy_while_an_orphan_finishes(*arguments: Any) -> Any:
        monkeypatch.undo()
        orphan.append(area.run(attempt))
        return copy_forward(*arguments)

    monkeypatch.setattr(job_module, "copy_forward", copy_while_an_orphan_finishes)
    assert area.run(attempt) == orphan[0]
    names = storage.list_objects(attempt.folder_uri)
    assert sum(name.startswith("files-") for name in names) == 2
    assert str(orphan[0].file_list_uri).rsplit("/", 1)[1] in names


def test_runs_of_one_attempt_share_no_file(area: SparkJobFeed) -> None:
    """Files and sketches that are copied keep their names, so each run needs a folder of its own."""
    area.publish(area.land(1, [row(1, 1, 1), row(1, 2, 1, SECOND)]))
    attempt = area.attempt([area.land(2, [row(2, 1, 1)])])
    candidate = area.run(attempt)
    first = set(storage.list_objects(attempt.data_uri))
    storage.delete(storage.join(attempt.folder_uri, "candidate.json"))
    area.run(attempt)
    second = set(storage.list_objects(attempt.data_uri)) - first
    assert len(second) == len(first)
    for name in second:
        storage.delete(storage.join(attempt.data_uri, name))
    area.commit(candidate)
    assert found(area) == [(1, 1, 2), (2, 1, 1)]


@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_the_run_after_a_lost_driver_makes_the_whole_table_in_its_own_folder(
    area: SparkJobFeed, mode: UpdateIdMode
) -> None:
    area.mode = mode
    area.publish(area.land(1, rows(1, *range(50)) + rows(1, 1, day=SECOND)))
    attempt = area.attempt([area.land(2, [*rows(2, *range(1, 51)), row(2, 1, 10, day=SECOND)])])
    with patch.object(job_module, "copy_forward", side_effect=Killed), pytest.raises(Killed):
        area.run(attempt)
    (lost,) = {name.split("/")[0] for name in storage.list_objects(attempt.data_uri)}
    candidate = area.run(attempt)
    shutil.rmtree(storage.join(attempt.data_uri, lost))
    area.commit(candidate)
    assert len(found(area)) == 52
    # Few rows differ, so that the sketch of the second snapshot tells which.
    area.publish(area.land(3, [{**each, "update_id": 3} for each in rows(2, *range(2, 51))]))
    assert "stored" in area.entry(FIRST).plan_reason or "differing rows" in area.entry(FIRST).plan_reason


DATES, KILLS = times(10, 40), times(1, 20)


def some_rows(snapshot_id: int, first: int, last: int) -> list[dict[str, Any]]:
    days = [FIRST + timedelta(days=number) for number in range(DATES)]
    return [row(snapshot_id, n, snapshot_id * 10 + n, day=day) for day in days for n in range(first, last)]


EXPECTED = sorted(tuple(each.values()) for each in some_rows(1, 0, 1) + some_rows(2, 1, 21))


def table_of(area: SparkJobFeed) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in area.rows())


@pytest.mark.spark
def test_workers_and_drivers_that_get_sigkill_leave_no_candidate_or_a_right_one(tmp_path: Path) -> None:
    with JobProcess() as process:
        area = ProcessArea(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=Plan.ADOPT)
        area.process = process
        area.publish(area.land(1, some_rows(1, 0, 20)))
        arrival = area.land(2, some_rows(2, 1, 21))
        began = time.monotonic()
        area.run(area.attempt([arrival]))
        seconds = time.monotonic() - began
        assert process.workers()
        before = area.manifest, area.parent
        for kill in [*[process.kill_workers] * KILLS, process.kill_driver]:
            attempt = area.attempt([arrival])
            area.begin(attempt)
            time.sleep(random.uniform(0, seconds))
            kill()
            answer, left = process.answer(), candidate_of(attempt)
            assert (answer, left is not None) in {(DONE, True), (FAILED, False), ("", True), ("", False)}
            if left:
                area.commit(left)
                assert table_of(area) == EXPECTED
                area.manifest, area.parent = before
    area.commit(SparkJobFeed.run(area, area.attempt([arrival])))  # by another driver: the test's own process
    assert table_of(area) == EXPECTED
