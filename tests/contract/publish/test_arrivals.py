"""The watch task on a real landing bucket: which deliveries get a run, whatever Airflow missed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import TaskDeferred
from google.api_core.exceptions import ServiceUnavailable

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.job_run import JobRun
from dedup_clone.contract.records import to_json
from dedup_clone.orchestration.shared.publish_run import MAX_RUNS, RUNS_BEFORE_REPORT, publish_run_id
from dedup_clone.orchestration.watch import delivery_sensor
from dedup_clone.orchestration.watch.delivery_sensor import BACKLOG_LIMIT_S, IDLE_LIMIT_S, MAX_RUNS_STARTED
from dedup_clone.orchestration.watch.publish_runs import (
    LONGEST_PAUSE,
    REPEAT_AFTER,
    RUN_IDS_PER_CALL,
    find_failed_publish,
)
from dedup_clone.publish.discard import discard
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.warehouse.bigquery import Warehouse
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from tests.contract.watch import Watch


@pytest.fixture
def watch(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(world, monkeypatch)


def test_each_delivery_gets_its_run_once(watch: Watch) -> None:
    watch.mark(7, 8)
    assert [run.split("__")[1] for run in watch.register()] == ["7", "8"]
    assert watch.register() == []


def test_a_marker_that_is_written_again_is_a_delivery_of_its_own(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.register()
    watch.mark(7)
    (second,) = watch.register()
    assert first != second


def test_an_outage_of_any_length_loses_no_delivery_and_lost_runs_are_started_later(watch: Watch) -> None:
    missed = range(1, RUN_IDS_PER_CALL + 31)
    watch.mark(*missed)
    assert len(watch.register()) == len(missed)
    assert watch.register() == []
    watch.airflow.runs.clear()  # lost between registration and start
    assert len(watch.register()) == len(missed)


@pytest.mark.exhaustive
def test_deliveries_that_are_long_accounted_for_get_no_new_run(watch: Watch) -> None:
    watch.world.publish(watch.world.land(1, [row(1, 1)]))
    old = publish_run_id(watch.world.services.arrivals.deliveries()[0])
    watch.mark(*range(2, RUN_IDS_PER_CALL + 2))
    assert old not in watch.register()


def test_a_new_environment_starts_no_run_for_what_is_published(watch: Watch) -> None:
    for snapshot in (1, 2):
        watch.world.publish(watch.world.land(snapshot, [row(snapshot, 1)]))
    watch.mark(4)
    assert [run.split("__")[1] for run in watch.register()] == ["4"]


def test_a_failed_run_is_repeated_after_a_while_and_not_for_ever(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.register()
    started, last = [first], first
    for pause in (REPEAT_AFTER, 2 * REPEAT_AFTER, 4 * REPEAT_AFTER, LONGEST_PAUSE):
        watch.fail(last)
        watch.later += pause - timedelta(minutes=1)
        assert watch.register() == []
        watch.later += timedelta(minutes=1)
        (last,) = watch.register()
        started.append(last)
        watch.later += timedelta(days=1)
        assert watch.register() == []  # it is running
    assert started == [first, *(f"{first}__{number}" for number in range(2, 6))]
    last = publish_run_id(watch.waiting[-1], MAX_RUNS)
    for number in range(5, MAX_RUNS + 1):
        watch.fail(publish_run_id(watch.waiting[-1], number))
    watch.later += timedelta(days=9)
    assert watch.register() == []
    failed = watch.failed()
    assert (failed.run_id, failed.repeat_at) == (last, None)
    assert failed.reported_because == f"all of its {MAX_RUNS} automatic runs failed"


def test_a_delivery_that_waits_although_its_run_succeeded_gets_further_runs(watch: Watch) -> None:
    """As after a recovery without records: what was published is registered again, and waits."""
    watch.mark(7)
    (first,) = watch.register()
    watch.end(first, "success")
    assert watch.register() == []  # its commit may have been a moment ago
    watch.later = REPEAT_AFTER
    assert watch.register() == [f"{first}__2"]
    for number in range(2, RUNS_BEFORE_REPORT + 1):
        watch.end(publish_run_id(watch.waiting[-1], number), "success")
    assert watch.failed().reported_because == "all of its 4 automatic runs ended, and it still waits"


def test_the_alert_about_failed_runs_stays_open_during_a_repeat_even_if_one_run_had_succeeded(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.register()
    watch.end(first, "success")
    for number in range(2, RUNS_BEFORE_REPORT + 1):
        watch.fail(publish_run_id(watch.waiting[-1], number))
    watch.later = LONGEST_PAUSE
    assert watch.register() == [publish_run_id(watch.waiting[-1], RUNS_BEFORE_REPORT + 1)]
    assert watch.failed().reported_because == "all of its 4 automatic runs ended, and it still waits"
    assert watch.failed().is_repeated


def test_of_many_deliveries_only_the_newest_get_runs_of_their_own(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert conf.getint("core", "max_map_length") > MAX_RUNS_STARTED
    monkeypatch.setattr(delivery_sensor, "MAX_RUNS_STARTED", 3)
    for snapshot in range(1, 6):
        watch.world.land(snapshot, [row(snapshot, snapshot)])
    runs = watch.register()
    assert [run.split("__")[1] for run in runs] == ["3", "4", "5"]
    assert watch.register() == []
    watch.world.publish(watch.waiting[-1].name, run_id=runs[-1])
    assert watch.world.rows() == expected(*(row(n, n) for n in range(1, 6)))


def test_a_feed_comes_back_by_itself_after_an_outage_of_six_hours(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three deliveries arrive while BigQuery is away; the seventh run of the newest publishes all."""
    world, reported = watch.world, []
    with monkeypatch.context() as outage:
        outage.setattr(Warehouse, "table", Mock(side_effect=ServiceUnavailable("away")))  # type: ignore[no-untyped-call]
        for snapshot in (1, 2, 3):
            world.land(snapshot, [row(snapshot, snapshot)])
        while watch.later < timedelta(hours=6):
            for run_id in watch.register():
                with pytest.raises(ServiceUnavailable):
                    world.resolve(watch.waiting[-1].name, run_id=run_id)
                failed = find_failed_publish(world.services, watch.dag_id, watch.waiting)
                reported.append(failed.is_repeated if failed else None)
                watch.fail(run_id)
            watch.later += timedelta(minutes=40)  # half an hour of them the run's tasks are retried
    assert watch.failed().reported_because == "all of its 6 automatic runs failed"
    assert reported[-2:] == [True, True]
    watch.later += LONGEST_PAUSE
    (run_id,) = watch.register()
    world.publish(watch.waiting[-1].name, run_id=run_id)
    assert world.rows() == expected(*(row(n, n) for n in (1, 2, 3)))


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.BIGQUERY])
def test_after_four_failed_runs_one_that_read_rows_is_not_repeated(watch: Watch, engine: Engine) -> None:
    world = watch.world
    name = world.land(7, [row(7, 1)])
    runs = [publish_run_id(watch.waiting[-1], number) for number in range(1, RUNS_BEFORE_REPORT + 1)]
    for run_id in runs:
        watch.fail(run_id)
    assert watch.failed().repeat_at is not None
    spec = world.resolve(name, run_id=runs[-1], engine=engine)
    services, layout = world.services, world.services.layout
    services.store.create(layout.dedup_started(spec.attempt), "")
    assert (watch.failed().repeat_at is None) == (engine is Engine.BIGQUERY)
    if engine is Engine.SPARK:
        run = JobRun("1", "app", world.now())
        services.store.put(f"{layout.job_runs(spec.attempt)}1.json", to_json(run))
    assert watch.failed().repeat_at is None
    discard(services, services.current.require_intent(spec.attempt))
    assert watch.failed().repeat_at is None


def test_of_several_waiting_deliveries_only_the_newest_is_run_again(watch: Watch) -> None:
    watch.mark(7, 8)
    for run_id in watch.register():
        watch.fail(run_id)
    watch.later = REPEAT_AFTER
    assert [run.split("__")[1] for run in watch.register()] == ["8"]


def test_a_run_whose_check_failed_is_not_repeated_because_its_delivery_is_held(watch: Watch) -> None:
    world = watch.world
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    world.feed = world.feed.model_copy(update={"checks": CheckSettings(max_changed_share=0.5)})
    name = world.land(8, [row(8, n, 99) for n in range(10)])
    (run_id,) = watch.register()
    spec = world.resolve(name, run_id=run_id)
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed):
        world.check(spec)
    intent = world.services.current.require_intent(spec.attempt)
    discard(world.services, intent)
    watch.fail(run_id)
    watch.later = timedelta(hours=1)
    assert watch.register() == []


def test_the_newest_delivery_is_tried_alone_at_once_if_a_check_stopped_it_with_others(watch: Watch) -> None:
    world = watch.world
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    world.feed = world.feed.model_copy(update={"checks": CheckSettings()})
    world.land(8, [row(8, n) for n in range(50)])
    name = world.land(9, [row(9, n) for n in range(10)])
    runs = watch.register()
    spec = world.resolve(name, run_id=runs[-1])
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed):
        world.check(spec)
    discard(world.services, world.services.current.require_intent(spec.attempt))
    for run_id in runs:
        watch.fail(run_id)
    assert watch.register() == [f"{runs[-1]}__2"]


def test_a_run_that_a_check_ended_before_dedup_is_reported_and_repeated(watch: Watch) -> None:
    world = watch.world
    world.publish(world.land(7, [row(7, 1)]))
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.labels = {**table.labels, "dedup_clone_generation": "9"}
    world.bigquery.update_table(table, ["labels"])
    name = world.land(8, [row(8, 1)])
    (run_id,) = watch.register()
    with pytest.raises(CheckFailed):
        world.resolve(name, run_id=run_id)
    watch.fail(run_id)
    newest = world.services.arrivals.deliveries()[-1:]
    failed = find_failed_publish(world.services, watch.dag_id, newest)
    assert failed is not None
    assert (failed.reported_because, failed.repeat_at is None) == ("a check before the swap failed", False)
    watch.later = timedelta(hours=1)
    (repeat,) = watch.register()
    repeated = find_failed_publish(world.services, watch.dag_id, newest)
    assert repeated is not None, "the alert stays open while the repeat is active"
    assert (repeated.run_id, repeated.is_repeated, repeat) == (run_id, True, f"{run_id}__2")


@pytest.mark.parametrize(("marked", "limit_s"), [((), IDLE_LIMIT_S), ((7,), BACKLOG_LIMIT_S)])
def test_while_a_delivery_waits_the_sensor_looks_again_soon(
    watch: Watch, marked: tuple[int, ...], limit_s: int
) -> None:
    watch.mark(*marked)
    watch.register()
    context: Any = {}
    with pytest.raises(TaskDeferred) as deferred:
        watch.sensor.execute(context)
    assert deferred.value.trigger.serialize()[1]["limit_s"] == limit_s
