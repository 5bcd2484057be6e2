"""`last_changed`: only the dates that differ from what staging holds are loaded; what is not known is loaded whole."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish import load
from dedup_clone.publish.load import load_dates, read_candidate
from dedup_clone.state.ledger import LedgerRecord
from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from testkit.spark_dedup_process import SparkDedupProcess

DAYS = [TODAY - timedelta(days=n) for n in range(4)]
BASE = [row(7, n, day=day) for n, day in enumerate(DAYS)]
SECOND = [row(8, 9, day=DAYS[1])]


@pytest.fixture
def changing(world: FeedOnStandIn) -> FeedOnStandIn:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.publish(world.land(7, BASE))
    return world


def loads_of(world: FeedOnStandIn, record: LedgerRecord) -> list[str]:
    """The load jobs of an attempt: `load` for the whole table, `load_<date>` for one partition."""
    jobs = [j.job_id for j in world.bigquery.list_jobs() if record.attempt in j.job_id]
    return sorted(step for step in (job.rsplit("-", 2)[1] for job in jobs) if step.startswith("load"))


def publish(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> list[str]:
    return loads_of(world, world.publish(world.land(snapshot_id, rows)))


@pytest.mark.exhaustive
def test_with_the_real_job_an_unchanged_snapshot_loads_nothing_and_a_change_its_date_alone(
    world: FeedOnStandIn, real_dedup: SparkDedupProcess
) -> None:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.dedup = real_dedup
    world.publish(world.land(7, BASE))
    assert publish(world, 8, [{**one, "update_id": 8} for one in BASE]) == []
    assert world.rows() == expected(*BASE)
    changed = [{**one, "update_id": 9, "attr_value": 77 if n == 2 else one["attr_value"]} for n, one in enumerate(BASE)]
    assert publish(world, 9, changed) == [f"load_{DAYS[2]:%Y%m%d}"]
    assert world.rows() == expected(*(changed[n] if n == 2 else one for n, one in enumerate(BASE)))


def test_only_the_changed_date_is_loaded_and_of_what_changes_nothing_none(changing: FeedOnStandIn) -> None:
    name = changing.land(8, SECOND)
    assert loads_of(changing, changing.publish(name)) == [f"load_{DAYS[1]:%Y%m%d}"]
    assert changing.rows() == expected(*BASE, *SECOND)
    record = changing.publish(name, replay=True, run_id="manual")
    assert loads_of(changing, record) == []
    assert changing.rows() == expected(*BASE, *SECOND)
    assert changing.live() == "3"


def test_loads_pause_after_as_many_as_bigquery_lets_change_in_10_seconds(
    changing: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = changing.resolve(changing.land(8, [row(8, 9, day=day) for day in DAYS[:3]]))
    changing.dedup.run(spec.request_uri)
    candidate, manifest = read_candidate(changing.services, spec)
    monkeypatch.setattr(load, "LOADS_AT_ONCE", 2)
    slept: list[float] = []
    load_dates(changing.services, spec, candidate, manifest, tuple(DAYS[:3]), sleep=slept.append)
    assert slept == [10]
    changing.check(spec)


@pytest.mark.exhaustive
def test_more_dates_than_bigquery_lets_change_in_10_seconds_are_loaded(world: FeedOnStandIn) -> None:
    """At most 50 modifications of a partitioned table in 10 seconds (quotas, "Partitioned tables")."""
    days = [TODAY - timedelta(days=n) for n in range(104)]
    base = [row(7, 1, day=day) for day in days]
    changed = [row(8, 2, day=day) for day in days[:52]]
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.publish(world.land(7, base))
    spec = world.resolve(world.land(8, changed))
    world.dedup.run(spec.request_uri)
    candidate, manifest = read_candidate(world.services, spec)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    load_dates(world.services, spec, candidate, manifest, tuple(days[:52]), sleep=sleep)
    assert slept == [10]
    world.check(spec)
    assert world.rows(world.feed.staging) == expected(*base, *changed)


@pytest.mark.exhaustive
def test_many_changed_dates_are_loaded_as_a_whole(changing: FeedOnStandIn) -> None:
    assert publish(changing, 8, [row(8, 9, day=day) for day in DAYS[:3]]) == ["load"]


@pytest.mark.exhaustive
def test_the_whole_table_is_loaded_where_a_date_has_more_files_than_its_job_can_name(
    changing: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "URIS_PER_JOB", 0)
    assert publish(changing, 8, SECOND) == ["load"]
    assert changing.rows() == expected(*BASE, *SECOND)


def test_the_whole_table_is_loaded_where_a_load_did_not_end(changing: FeedOnStandIn) -> None:
    spec = changing.resolve(changing.land(8, SECOND))
    changing.dedup.run(spec.request_uri)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dedup_clone.publish.load.finish_load", lambda *_: None)
        changing.load(spec)  # dies before STAGING says `loaded`
    changing.dedup.refused_ids = {8}
    assert publish(changing, 9, [row(9, 5, day=DAYS[0])]) == ["load"]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))


def test_what_a_failed_run_left_in_staging_is_loaded_over(changing: FeedOnStandIn) -> None:
    spec = changing.resolve(changing.land(8, SECOND))
    changing.dedup.run(spec.request_uri)
    changing.load(spec)  # loaded, never swapped
    changing.dedup.refused_ids = {8}
    after = publish(changing, 9, [row(9, 5, day=DAYS[0])])
    assert after == [f"load_{day:%Y%m%d}" for day in (DAYS[1], DAYS[0])]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))


@pytest.mark.exhaustive
def test_after_a_rollback_only_what_differs_from_staging_is_loaded(changing: FeedOnStandIn) -> None:
    publish(changing, 8, SECOND)
    changing.roll_back(1)
    assert publish(changing, 9, [row(9, 5, day=DAYS[0])]) == [f"load_{day:%Y%m%d}" for day in (DAYS[1], DAYS[0])]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))
