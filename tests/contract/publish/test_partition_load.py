"""How staging is loaded: with `last_changed` only the dates that differ from what it holds; what is unknown, whole.

And how many requests a publish makes does not depend on the number of dates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from unittest.mock import patch

import pytest
import requests
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import CheckFailed, JobFailed, LeaseLost, LostRace
from testkit import runs, step_faults
from testkit.dedup_job import Row
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, job_id, row
from testkit.killed_writes import asleep_before_read, asleep_before_write, kill_before_write, spared
from tests.contract.new_feeds import new_feed
from tests.thoroughness import times

DAYS = [TODAY - timedelta(days=n) for n in range(4)]
BASE = [row(7, n, day=day) for n, day in enumerate(DAYS)]
SECOND, THIRD = [row(8, 9, day=DAYS[1])], [row(9, 5, day=DAYS[0])]
# Requests that depend on what earlier tests left on the shared servers, and on when the reporting tables are due.
TOLERANCE = 25


@pytest.fixture
def changing(world: FeedOnStandIn) -> FeedOnStandIn:
    world.configure(update_id_mode="last_changed")
    world.publish(world.land(7, BASE))
    return world


def publish(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> list[str]:
    return world.loads_of(world.publish(world.land(snapshot_id, rows)).attempt)


def only(*numbers: int) -> list[str]:
    """The jobs that load these of DAYS."""
    return sorted(f"load_{DAYS[number]:%Y%m%d}" for number in numbers)


def test_only_changed_dates_are_loaded_unless_many_changed_or_have_too_many_files(changing: FeedOnStandIn) -> None:
    assert publish(changing, 8, SECOND) == only(1)
    assert (changing.rows(), changing.live()) == (expected(*BASE, *SECOND), "2")
    changing.roll_back(1)
    name = changing.land(9, THIRD)
    # What differs from staging, which the rollback did not load.
    assert changing.loads_of(changing.publish(name).attempt) == only(0, 1)
    assert changing.loads_of(changing.publish(name, replay=True, run_id="manual").attempt) == []
    assert (changing.rows(), changing.live()) == (expected(*BASE, *THIRD), "5")
    with step_faults.small_limits(uris_per_job=0):
        assert publish(changing, 10, [row(10, 9, day=DAYS[1])]) == ["load"]
    assert publish(changing, 11, [row(11, 8, day=day) for day in DAYS[:3]]) == ["load"]
    assert changing.rows(changing.feed.staging) == changing.rows()


def test_an_unchanged_snapshot_loads_nothing_and_a_change_its_date_alone(changing: FeedOnStandIn) -> None:
    assert publish(changing, 8, [{**one, "update_id": 8} for one in BASE]) == []
    assert changing.rows() == expected(*BASE)
    changed = [{**one, "update_id": 9, "attr_value": 77 if n == 2 else one["attr_value"]} for n, one in enumerate(BASE)]
    assert publish(changing, 9, changed) == only(2)
    assert changing.rows() == expected(*(changed[n] if n == 2 else one for n, one in enumerate(BASE)))


def test_loads_pause_after_as_many_as_bigquery_lets_change_in_10_seconds(changing: FeedOnStandIn) -> None:
    """At most 50 modifications of a partitioned table in 10 seconds (quotas, "Partitioned tables")."""
    run = runs.publish(changing, changing.land(8, [row(8, 9, day=day) for day in DAYS[:3]])).until("dedup")
    with step_faults.small_limits(loads_at_once=2):
        assert step_faults.load_dates_of(run, DAYS[:3]) == [10]
    run.step("check")
    assert changing.rows(changing.feed.staging) == expected(*BASE, *(row(8, 9, day=day) for day in DAYS[:3]))


@pytest.mark.parametrize("dies", ["before its end", "after its end"])
def test_what_a_failed_run_left_in_staging_is_loaded_over(changing: FeedOnStandIn, dies: str) -> None:
    """The next run loads the whole table if nobody knows what a load has left, else what differs."""
    run = runs.publish(changing, changing.land(8, SECOND)).until("dedup")
    if dies == "before its end":
        for number in range(1, 40):  # until staging is unknown, and the job has run
            kill_before_write(number, lambda: run.step("load"))
            if changing.state.read("CURRENT")["staging"]["holds"] is None and changing.loads_of(run.attempt):
                break
        changing.wait_for_all_jobs()
    else:
        run.step("load")
    changing.spoil(8)
    assert publish(changing, 9, THIRD) == (["load"] if dies == "before its end" else only(0, 1))
    assert changing.rows() == expected(*BASE, *THIRD)


def test_a_load_of_one_date_that_a_sleeping_task_makes_after_later_runs_is_rejected(changing: FeedOnStandIn) -> None:
    """A retry has loaded the whole table, and its run has ended well."""
    run = runs.publish(changing, changing.land(8, SECOND)).until("dedup")
    latest = row(9, 9, 31, day=DAYS[1])

    def retry() -> list[str]:
        run.until("commit")
        return publish(changing, 9, [latest])

    with asleep_before_write(2, retry) as woken, contextlib.suppress(JobFailed, LeaseLost):
        run.step("load")
    assert woken == [only(1)]
    last = row(10, 5, day=DAYS[0])
    assert publish(changing, 10, [last]) == only(0)
    assert changing.rows() == expected(*BASE, latest, last)


def test_so_is_one_that_it_records_only_after_the_checks_of_a_retry(changing: FeedOnStandIn) -> None:
    """The retry has loaded the whole table, as it may decide after midnight."""
    run = runs.publish(changing, changing.land(8, SECOND)).until("dedup")
    latest = row(9, 9, 31, day=DAYS[1])

    def retry() -> None:  # before the first try has read CURRENT to record its jobs
        with spared(), step_faults.small_limits(uris_per_job=0):
            run.until("swap")

    def end() -> list[str]:
        with spared():
            run.until("commit")
            return publish(changing, 9, [latest])

    with asleep_before_write(2, end) as woken, asleep_before_read(7, retry), contextlib.suppress(JobFailed, LeaseLost):
        run.step("load")
    assert woken == [["load"]]
    last = row(10, 5, day=DAYS[0])
    assert publish(changing, 10, [last]) == only(0)
    assert changing.rows() == expected(*BASE, latest, last)


def test_a_run_that_records_a_job_while_it_commits_tries_again(changing: FeedOnStandIn) -> None:
    run = runs.publish(changing, changing.land(8, SECOND)).until("swap")
    late = job_id(run.plan, "load", 7)
    record = partial(changing.services.current.record_jobs, run.attempt, [late])
    with asleep_before_write(1, record), pytest.raises(LostRace, match="recorded another job"):
        run.step("commit")
    assert changing.state.lease is not None
    run.until("commit")
    assert changing.bigquery.get_job(late).error_result


def test_after_somebody_dropped_staging_all_of_it_is_loaded(changing: FeedOnStandIn) -> None:
    changing.query(f"DROP TABLE .{changing.feed.staging}")
    assert publish(changing, 8, SECOND) == ["load"]
    assert changing.rows() == expected(*BASE, *SECOND)


def test_after_a_foreign_row_in_staging_all_of_it_is_loaded(changing: FeedOnStandIn) -> None:
    """Else each later publish would load its own dates, and fail because of the row on another date."""
    changing.query(f"DELETE FROM .{changing.feed.staging} WHERE date = '{DAYS[3]}'")
    run = runs.publish(changing, changing.land(8, SECOND)).until("load")
    with pytest.raises(CheckFailed, match="staging_rows"):
        run.step("check")
    run.end()
    assert publish(changing, 9, THIRD) == ["load"]
    assert changing.rows() == expected(*BASE, *SECOND, *THIRD)


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the addresses of the requests that are made within the block, without those that wait for a job."""
    made: list[str] = []
    send = requests.Session.request

    def counted(session: requests.Session, method: str, url: str, *rest: object, **options: object) -> object:
        if method != "GET" or not {"jobs", "queries"} & set(url.split("/")):
            made.append(url)
        return send(session, method, url, *rest, **options)

    with patch.object(requests.Session, "request", counted):
        yield made


def test_requests_do_not_grow_with_the_dates(clients: tuple[Storage, BigQuery]) -> None:
    """Apart from those of the dedup job, and from the footers of at most 32 files."""
    found = []
    for dates in (32, times(90, 140)):
        feed = FeedOnStandIn(new_feed(), *clients)
        run = runs.publish(feed, feed.land(1, [row(1, 1, day=TODAY - timedelta(days=n)) for n in range(dates)]))
        with counting() as before:
            run.until("resolve")
        run.until("dedup")
        with counting() as after:
            run.finish()
        assert len(feed.rows()) == dates
        found.append(len(before) + len(after))
    assert found[0] > 50
    assert found[1] <= found[0] + TOLERANCE
