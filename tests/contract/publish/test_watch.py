"""The watch task on a real landing bucket: which deliveries get a run, whatever Airflow missed, and at what cost."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from dedup_clone.contract.errors import CheckFailed
from testkit import deliveries, operations, runs, step_faults
from testkit.airflow import TaskApi
from testkit.dag_tasks import Watch, Watchdog
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def watch(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(world, TaskApi(monkeypatch), monkeypatch)


def ids(run_ids: list[str]) -> list[str]:
    return [run_id.split("__")[1] for run_id in run_ids]


def reason(watch: Watch) -> str:
    failed = watch.failed()
    assert failed
    return failed.reason


def test_what_arrives_gets_one_run_even_if_airflow_lost_it_but_not_if_it_is_published(watch: Watch) -> None:
    world = watch.world
    for snapshot in (1, 2):  # before this environment of Airflow was set up
        world.publish(world.land(snapshot, [row(snapshot, 1)]))
    watch.mark(7, 8)
    first = watch.register()
    assert ids(first) == ["8"], "it publishes 7, too"
    assert watch.register() == []
    watch.airflow.runs.clear()  # lost between registration and start
    assert watch.register() == first
    watch.mark(7)  # a delivery of its own
    assert ids(watch.register()) == ["7"]


def test_an_outage_of_any_length_loses_no_delivery(watch: Watch) -> None:
    world = watch.world
    world.publish(world.land(1, [row(1, 1)]))
    missed = range(2, 132)
    watch.mark(*missed)
    found = watch.register()
    assert ids(found) == ["131"]
    assert len(watch.world.state.names("arrivals/")) == 131
    assert watch.register() == []
    watch.airflow.runs.clear()
    assert watch.register() == found


def test_a_failed_run_is_repeated_after_a_while_and_not_for_ever(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.register()
    started, last = [first], first
    for minutes in (10, 20, 40, 60):
        watch.end(last)
        watch.later += (minutes - 1) * MINUTE
        assert watch.register() == []
        watch.later += MINUTE
        (last,) = watch.register()
        started.append(last)
        watch.later += timedelta(days=1)
        assert watch.register() == []  # it is running
    assert started == [first, *(f"{first}__{number}" for number in range(2, 6))]
    for number in range(5, 29):
        watch.end(watch.run_id(number))
    watch.later += timedelta(days=9)
    assert watch.register() == []
    failed = watch.failed()
    assert failed
    assert (failed.run_id, failed.repeat_at) == (f"{first}__28", None)
    assert failed.reason == "all of its 28 automatic runs failed"


def test_after_a_run_is_deleted_in_airflow_the_next_one_still_gets_the_next_number(watch: Watch) -> None:
    """With the id of a run that exists, the watch DAG would start nothing, end, and begin again at once, for ever."""
    watch.mark(7)
    (first,) = watch.register()
    for number in range(1, 5):
        watch.end(watch.run_id(number))
    del watch.airflow.runs[watch.dag_id][f"{first}__2"]
    assert reason(watch) == "all of its 4 automatic runs failed"
    watch.later = 59 * MINUTE
    assert watch.register() == []
    watch.later = HOUR
    assert watch.register() == [f"{first}__5"]
    del watch.airflow.runs[watch.dag_id][f"{first}__3"]
    assert watch.register() == [], "the fifth is running"


def test_a_first_run_that_is_deleted_in_airflow_is_not_started_again_if_there_is_a_second(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.register()
    watch.end(first)
    watch.later = 10 * MINUTE
    assert watch.register() == [f"{first}__2"]
    del watch.airflow.runs[watch.dag_id][first]
    assert watch.register() == [], "the second is running"
    watch.end(f"{first}__2")
    watch.later = 29 * MINUTE
    assert watch.register() == []
    watch.later = 30 * MINUTE
    assert watch.register() == [f"{first}__3"]


def test_a_delivery_that_waits_although_its_runs_succeeded_gets_further_runs_and_is_reported(watch: Watch) -> None:
    """As after a recovery without records: what was published is registered again, and waits."""
    watch.mark(7)
    (first,) = watch.register()
    watch.end(first, "success")
    assert watch.register() == []  # its commit may have been a moment ago
    watch.later = 10 * MINUTE
    assert watch.register() == [f"{first}__2"]
    for number, state in ((2, "success"), (3, "failed"), (4, "failed")):
        watch.end(watch.run_id(number), state)
    assert reason(watch) == "all of its 4 automatic runs ended, and it still waits"
    watch.later += HOUR
    assert watch.register() == [f"{first}__5"]
    assert reason(watch) == "all of its 4 automatic runs ended, and it still waits"  # the alert stays open meanwhile
    failed = watch.failed()
    assert failed
    assert failed.is_repeated


def test_a_feed_comes_back_by_itself_after_an_outage_of_six_hours(watch: Watch) -> None:
    """Three deliveries arrive while BigQuery is away; the seventh run of the newest publishes all."""
    world, repeated = watch.world, []
    for snapshot in (1, 2, 3):
        world.land(snapshot, [row(snapshot, snapshot)])
    while watch.later < 6 * HOUR:
        for run_id in watch.register():
            with step_faults.bigquery_away(), pytest.raises(step_faults.Away):
                world.resolve(watch.waiting[-1].name, run_id=run_id)
            failed = watch.failed()
            repeated.append(failed.is_repeated if failed else None)
            watch.end(run_id)
        watch.later += 40 * MINUTE  # half an hour of them the run's tasks are retried
    assert reason(watch) == "all of its 6 automatic runs failed"
    assert repeated[-2:] == [True, True]
    watch.later += HOUR
    (run_id,) = watch.register()
    world.publish(watch.waiting[-1].name, run_id=run_id)
    assert world.rows() == expected(*(row(n, n) for n in (1, 2, 3)))


@pytest.mark.parametrize("engine", ["spark", "bigquery"])
def test_after_four_failed_runs_one_that_read_rows_is_not_repeated(watch: Watch, engine: str) -> None:
    world = watch.world
    name = world.land(7, [row(7, 1)])
    for number in range(1, 5):
        watch.end(watch.run_id(number))

    def is_repeated() -> bool:
        failed = watch.failed()
        assert failed
        return failed.repeat_at is not None

    assert is_repeated()
    run = runs.publish(world, name, run_id=watch.run_id(4), engine=engine).until("resolve")
    world.state.write(f"attempts/{run.attempt}/dedup_started", "")
    assert is_repeated() == (engine == "spark")
    if engine == "spark":
        world.state.write(f"attempts/{run.attempt}/progress.json", "{}")
    assert not is_repeated()
    run.end()
    assert not is_repeated()


@pytest.mark.parametrize("stopped_with_others", [False, True])
def test_a_run_that_a_check_on_the_data_stopped_is_repeated_only_to_try_the_newest_alone(
    watch: Watch, stopped_with_others: bool
) -> None:
    """Its delivery is held, and a person decides; of several, all but the newest are."""
    world = watch.world
    world.publish(world.land(6, [row(6, n) for n in range(10)]))
    world.configure(checks={"max_new_share": 0.2})
    if stopped_with_others:
        world.land(7, [row(7, n) for n in range(50)])
    world.land(8, [row(8, n) for n in range(10 if stopped_with_others else 50)])
    started = watch.register()
    run = runs.publish(world, watch.waiting[-1].name, run_id=started[-1])
    with pytest.raises(CheckFailed):
        run.finish()
    run.end()
    for run_id in started:
        watch.end(run_id)
    assert watch.register() == ([f"{started[-1]}__2"] if stopped_with_others else [])
    watch.later = HOUR
    assert watch.register() == []


def test_a_run_that_only_the_partition_quota_ended_is_repeated_as_the_quota_refills(watch: Watch) -> None:
    """BigQuery allows 30,000 partition modifications in 24 hours."""
    world = watch.world
    record = world.publish(world.land(7, [row(7, 1)]))
    world.state.write(f"ledger/{record.attempt}.json", json.dumps({**world.state.ledger()[0], "loads": 30_000}))
    name = world.land(8, [row(8, 1)])
    (run_id,) = watch.register()
    run = runs.publish(world, name, run_id=run_id)
    with pytest.raises(CheckFailed, match="partition_quota"):
        run.finish()
    run.end()
    watch.end(run_id)
    watch.later = 59 * MINUTE
    assert watch.register() == []
    watch.later = HOUR
    assert watch.register() == [f"{run_id}__2"]
    watch.later = 25 * HOUR
    world.publish(name, run_id=f"{run_id}__2")
    assert world.rows() == expected(row(8, 1))


def test_a_run_that_a_check_ended_before_dedup_is_reported_and_repeated(watch: Watch) -> None:
    world = watch.world
    world.publish(world.land(7, [row(7, 1)]))
    world.query(f"ALTER TABLE .{world.feed.target} SET OPTIONS (labels = [('dedup_clone_generation', '9')])")
    name = world.land(8, [row(8, 1)])
    (run_id,) = watch.register()
    with pytest.raises(CheckFailed):
        world.resolve(name, run_id=run_id)
    watch.end(run_id)
    failed = watch.failed(watch.waiting[-1:])
    assert failed
    assert (failed.reason, failed.repeat_at is None) == ("a check before the swap failed", False)
    watch.later = HOUR
    assert watch.register() == [f"{run_id}__2"]
    repeated = watch.failed(watch.waiting[-1:])
    assert repeated, "the alert stays open while the repeat is active"
    assert (repeated.run_id, repeated.is_repeated) == (run_id, True)


@pytest.mark.parametrize(("marked", "limit_s"), [((), 12 * 3600), ((7,), 300)])
def test_while_a_delivery_waits_the_sensor_looks_again_soon(
    watch: Watch, marked: tuple[int, ...], limit_s: int
) -> None:
    watch.mark(*marked)
    watch.register()
    assert watch.waits_for().serialize()[1]["limit_s"] == limit_s


def test_watch_and_watchdog_leave_a_retired_feed_alone(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = watch.world
    world.publish(world.land(7, [row(7, 1)]))
    operations.retire(world, "drop")
    watch.mark(8)
    assert watch.register() == []
    assert world.state.names("arrivals/") == []
    assert Watchdog(world, watch.airflow, monkeypatch, caplog).check() == []
    assert world.state_of("_freshness").names(world.feed.feed) == []


# -- Polling landing every few seconds --


@pytest.fixture
def polled(world: FeedOnStandIn) -> deliveries.Polling:
    """A landing with 13 registered snapshots, which every third poll lists as a whole."""
    for snapshot in range(1, 14):
        world.overwrite(snapshot, "_SUCCESS", b"")
    deliveries.register_all(world)
    return deliveries.Polling(world, polls_per_full_listing=3)


def test_old_markers_and_arrival_records_cost_next_to_nothing(polled: deliveries.Polling) -> None:
    counts = []
    for _ in range(4):
        assert polled.poll() == []
        counts.append(polled.requested)
    assert counts == [14, 4, 4, 14]  # 13 or the newest 3, and the prefix itself
    assert polled.listings == 1
    polled.world.overwrite(14, "_SUCCESS", b"")
    polled.poll()
    assert polled.listings == 2


def test_new_late_and_rewritten_snapshots_are_seen_at_once_and_old_ones_by_the_next_full_listing(
    polled: deliveries.Polling,
) -> None:
    polled.poll()
    seen: set[int] = set()
    for snapshot in (14, 13, 0):
        polled.world.overwrite(snapshot, "_SUCCESS", b"")
        found = polled.poll()
        assert snapshot in found
        seen |= {snapshot}
        assert set(found) == seen
    polled.poll()
    polled.world.overwrite(1, "_SUCCESS", b"")
    assert 1 in {found for _ in range(3) for found in polled.poll()}
