"""One check by the watchdog: its alerts, metrics and verdict, and that a failed notifier is seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

from dedup_clone.contract.errors import AlertNotSent, ConfigurationError, FeedHeldElsewhere
from dedup_clone.freshness.incident import (
    NO_FEED,
    Incident,
    IncidentKind,
    IncidentRecord,
    IncidentRecords,
    write_incident_records,
)
from dedup_clone.freshness.verdict import FreshnessStatus, FreshnessVerdict, read_verdict
from dedup_clone.operations.rollback import RollbackRequest, prepare
from dedup_clone.orchestration.watchdog import feed_check as watchdog
from dedup_clone.orchestration.watchdog.feed_check import check_feed, refresh_verdict
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import resolve
from dedup_clone.settings.deployment import AlertSettings, NotifierSettings
from testkit.airflow import TaskApi
from testkit.dag_tasks import Watchdog
from testkit.feed_on_stand_in import FeedOnStandIn, row
from testkit.operations import retire
from tests.shared.freshness_states import incident


@pytest.fixture
def dog(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Watchdog:
    return Watchdog(world, TaskApi(monkeypatch), monkeypatch, caplog)


MINUTE = timedelta(minutes=1)


def test_a_late_delivery_gives_one_warning_one_miss_one_recovery(dog: Watchdog) -> None:
    name = dog.world.land(7, [row(7, 1)])
    assert dog.check() == []
    assert dog.check(later=40 * MINUTE) == ["WARNING: late"]
    assert dog.check(later=45 * MINUTE) == []
    assert dog.check(later=61 * MINUTE) == ["ALERT: late"]
    assert dog.check(later=66 * MINUTE) == []
    dog.world.publish(name)
    assert dog.check(later=71 * MINUTE) == ["RECOVERED: late"]
    assert "Readers see: snapshot 7" in dog.caplog.text
    assert dog.check(later=76 * MINUTE) == []


def test_a_publish_that_is_slow_is_told_with_its_run_before_and_after_the_sla(dog: Watchdog) -> None:
    name = dog.world.land(7, [row(7, 1)])
    attempt = dog.world.resolve(name, run_id="slow")
    dog.world.running = {"slow"}
    assert dog.check(later=10 * MINUTE) == []
    assert dog.check(later=56 * MINUTE) == ["WARNING: late"]
    dog.world.deduplicate(attempt)
    assert dog.check(later=61 * MINUTE) == ["ALERT: late"]
    message = dog.caplog.text
    assert (
        "61 min ago, and is not live; the freshness SLA is 60 min. Run [slow] has held the lease for 61 min" in message
    )
    assert "/runs/slow" in message
    dog.world.load(attempt)
    dog.world.swap(attempt, dog.world.check(attempt))
    dog.world.commit(attempt)
    assert dog.check(later=66 * MINUTE) == ["RECOVERED: late"]


def test_an_overdue_arrival_is_one_alert_and_one_recovery(dog: Watchdog) -> None:
    dog.expect(timedelta(hours=-3))
    assert dog.check() == ["ALERT: arrival_overdue"]
    assert dog.check(later=5 * MINUTE) == []
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    assert dog.check(later=10 * MINUTE) == ["RECOVERED: arrival_overdue"]
    dog.expect(timedelta(hours=13))  # with half an hour of grace
    assert dog.check(later=timedelta(hours=13, minutes=20)) == []
    assert dog.check(later=timedelta(hours=14)) == ["ALERT: arrival_overdue"]
    assert dog.check(later=timedelta(hours=15)) == []


def test_a_run_that_failed_often_is_reported_once_until_one_succeeds(dog: Watchdog) -> None:
    name = dog.world.land(7, [row(7, 1)])
    first = f"publish__{name.replace('-', '__')}"
    dag_id, ended = dog.setup.dag_id("publish"), datetime.now(UTC)
    dog.airflow.add_run(dag_id, first, "failed", end_date=ended)
    assert dog.check() == ["WARNING: late"]
    assert "The next run starts at " in dog.caplog.text
    for number in (2, 3, 4):
        dog.airflow.add_run(dag_id, f"{first}__{number}", "failed", end_date=ended)
    assert dog.check(later=5 * MINUTE) == ["ALERT: publish_failed"]
    assert "and a further run is started at " in dog.caplog.text
    dog.airflow.add_run(dag_id, f"{first}__5")
    assert dog.check(later=8 * MINUTE) == []
    dog.world.publish(name)
    assert dog.check(later=10 * MINUTE) == ["RECOVERED: late", "RECOVERED: publish_failed"]


def test_a_publish_that_fails_before_it_has_the_lease_is_told_at_once(dog: Watchdog) -> None:
    """As with keys in another order in the feed file: the run fails in its first task and leaves no record."""
    world = dog.world
    world.publish(world.land(7, [row(7, 1)]))
    keys = tuple(reversed(world.feed.table.keys))
    world.feed = world.feed.model_copy(update={"table": world.feed.table.model_copy(update={"keys": keys})})
    name = world.land(8, [row(8, 1)])
    run_id = f"publish__{name.replace('-', '__')}"
    dog.airflow.add_run(dog.setup.dag_id("publish"), run_id)
    with pytest.raises(ConfigurationError):
        world.resolve(name, run_id=run_id)
    assert dog.check() == []
    dog.airflow.add_run(dog.setup.dag_id("publish"), run_id, "failed", end_date=datetime.now(UTC))
    assert dog.check(later=MINUTE) == ["WARNING: late"]
    assert f"the log of run [{run_id}] says why" in dog.caplog.text
    assert verdict_of(world).status is FreshnessStatus.AT_RISK


@pytest.mark.parametrize("state", ["success", None], ids=["marked success", "deleted"])
def test_a_publish_that_ended_between_swap_and_commit_is_told_with_what_readers_see(
    dog: Watchdog, state: str | None
) -> None:
    world = dog.world
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    run_id = f"publish__{name.replace('-', '__')}"
    attempt, checked = world.publish_to_check(name, run_id=run_id)
    world.swap(attempt, checked)
    world.running = {run_id}
    assert dog.check() == []
    assert verdict_of(world).headline.startswith(f"Readers see generation 2, which run [{run_id}] has not committed; 1")
    world.running = set()
    if state:
        dog.airflow.add_run(dog.setup.dag_id("publish"), run_id, state, end_date=datetime.now(UTC))
    assert dog.check(later=MINUTE) == ["WARNING: late"]
    assert "Readers see: generation 2, which run" in dog.caplog.text
    assert isinstance(resolve(world.services, world.publish_request(name, run_id=f"{run_id}__2")), str)
    assert dog.check(later=3 * MINUTE) == ["RECOVERED: late"]
    assert verdict_of(world).headline.startswith("Readers see snapshot 8 (generation 2), which arrived ")


def test_a_lease_that_an_ended_run_left_is_told_at_once_if_no_delivery_waits(dog: Watchdog) -> None:
    """As with `commit_generation` of a rollback marked success by hand."""
    world = dog.world
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    form = RollbackRequest(dag_id="rollback", run_id="by-hand", generation=1, reason="bad snapshot")
    attempt = prepare(world.services, form, 2)
    world.running = {"by-hand"}
    assert dog.check() == []
    world.running = set()
    assert dog.check(later=MINUTE) == ["ALERT: stopped-lease_held"]
    assert attempt.generation == 3
    recover(world.services, replace(form, run_id="other"))
    assert dog.check(later=3 * MINUTE) == ["RECOVERED: stopped-lease_held"]


def test_a_run_that_gives_the_lease_back_during_the_check_is_not_reported(
    dog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dog.world
    attempt = world.resolve(world.land(7, [row(7, 1)]))

    def ends_well(dag_id: str, run_id: str) -> bool:
        world.services.current.release(attempt.id)
        return False

    services = replace(world.services, is_running=ends_well)
    monkeypatch.setattr(watchdog, "open_feed_services", lambda setup, clients=None: services)
    assert dog.check() == []


TOLD_BY_BIGQUERY = (
    incident(IncidentKind.TARGET_DRIFT),
    incident(IncidentKind.STOPPED, "materialized_view"),
    incident(IncidentKind.STOPPED, "job_pending"),
)


def without_bigquery(dog: Watchdog) -> Mock:
    """The clients of a check of all feeds that has found that BigQuery does not answer."""
    return Mock(bigquery_answers=False, of_feed=lambda feed, **_: dog.world.services)


@pytest.mark.parametrize("found", TOLD_BY_BIGQUERY, ids=lambda found: found.name)
def test_what_only_bigquery_tells_stays_open_while_bigquery_does_not_answer(dog: Watchdog, found: Incident) -> None:
    services = dog.world.services
    records = IncidentRecords((IncidentRecord(found, told={"log": found.severity}),))
    write_incident_records(services.store, services.feed.feed, records)
    dog.later = 5 * MINUTE
    check_feed(dog.setup, without_bigquery(dog))
    assert dog.titles() == []
    assert dog.check(later=10 * MINUTE) == [f"RECOVERED: {found.name}"]


def test_tables_that_lack_rows_of_the_feed_are_in_its_verdict_and_not_among_its_alerts(dog: Watchdog) -> None:
    store, own = dog.world.services.store, f"{dog.world.feed.feed}_changes"
    tables = [incident(IncidentKind.REPORTING, table) for table in ("dedup_clone_ledger", own, "others_changes")]
    write_incident_records(store, NO_FEED, IncidentRecords(tuple(map(IncidentRecord, tables))))
    try:
        assert dog.check() == []
    finally:
        write_incident_records(store, NO_FEED, IncidentRecords(()))
    assert [i.subject for i in verdict_of(dog.world).incidents] == ["dedup_clone_ledger", own]
    assert verdict_of(dog.world).status is FreshnessStatus.EMPTY


def test_drift_stays_in_the_verdict_since_it_began_while_bigquery_does_not_answer(dog: Watchdog) -> None:
    world = dog.world
    world.publish(world.land(7, [row(7, 1)]))
    world.label(dedup_clone_generation="6")
    assert dog.check() == ["ALERT: target_drift"]
    (began,) = [incident.since for incident in verdict_of(world).incidents]
    dog.later = 5 * MINUTE
    check_feed(dog.setup, without_bigquery(dog))
    assert [incident.since for incident in verdict_of(world).incidents] == [began]
    assert dog.check(later=10 * MINUTE) == []
    assert [incident.since for incident in verdict_of(world).incidents] == [began]


def test_another_environment_checks_nothing_of_the_feed_and_says_who_does(dog: Watchdog) -> None:
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    dog.check()
    first = verdict_of(dog.world)
    dog.world.environment = "new.example.org"
    dog.airflow.paused = {dog.setup.dag_id("watch")}  # in the new environment, where nothing runs yet
    with pytest.raises(FeedHeldElsewhere, match=r"is published by Airflow environment \[airflow.example.org\]"):
        dog.check(later=20 * MINUTE)
    assert dog.titles() == []
    assert verdict_of(dog.world) == first


def test_a_failed_notifier_fails_the_task_which_stored_the_verdict_and_is_tried_again(dog: Watchdog) -> None:
    broken = AlertSettings(notifiers=(NotifierSettings(class_path="nowhere.Notifier"),))
    deployment = dog.setup.deployment.model_copy(update={"alerts": broken})
    dog.setup = type(dog.setup)(dog.setup.feed, deployment, dog.setup.folders)
    dog.airflow.paused = {dog.setup.dag_id("watch")}
    for later, titles in ((0, ["ALERT: stopped-watch_paused"]), (5, [])):  # the log was reached before
        with pytest.raises(AlertNotSent, match=r"nowhere\.Notifier"):
            dog.check(later=later * MINUTE)
        assert dog.titles() == titles
    assert [i.kind for i in verdict_of(dog.world).incidents] == [IncidentKind.STOPPED]


def verdict_of(world: FeedOnStandIn) -> FreshnessVerdict:
    verdict = world.services.store.read_record(FreshnessVerdict, world.services.layout.freshness)
    assert verdict is not None
    return verdict


def test_each_check_stores_its_verdict_and_emits_metrics(dog: Watchdog) -> None:
    record = dog.world.publish(dog.world.land(7, [row(7, 1), row(7, 2)]))
    dog.check()
    verdict = verdict_of(dog.world)
    assert (verdict.status, verdict.incidents) == (FreshnessStatus.FRESH, ())
    assert verdict.headline.startswith("Readers see snapshot 7 (generation 1), which arrived ")
    expected = {"lag_seconds": record.lag_s, "incidents_open": 0}
    assert {name: dog.gauges[f"dedup_clone.{name}.{dog.world.feed.feed}"] for name in expected} == expected
    dog.world.land(8, [row(8, 1)])
    dog.check(later=61 * MINUTE)
    verdict = verdict_of(dog.world)
    assert (verdict.status, [i.kind for i in verdict.incidents]) == (FreshnessStatus.LATE, [IncidentKind.LATE])
    assert verdict.checked_at - datetime.now(UTC) > 60 * MINUTE
    assert verdict.waiting == 1


def test_a_publish_refreshes_the_verdict_of_its_environment_and_sends_no_alert(
    dog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    dog.airflow.paused = {dog.setup.dag_id("watch")}
    refresh_verdict(dog.setup)
    found = verdict_of(dog.world)
    assert found.status is FreshnessStatus.STOPPED
    assert dog.titles() == []
    assert list(dog.world.services.store.objects(dog.world.services.layout.incidents)) == []
    dog.world.environment, dog.airflow.paused = "new.example.org", set()
    refresh_verdict(dog.setup)
    assert verdict_of(dog.world) == found
    # If it fails, the publish does not.
    monkeypatch.setattr(watchdog, "open_feed_services", Mock(side_effect=ConnectionError("no route")))
    refresh_verdict(dog.setup)


def test_the_verdict_of_the_later_check_stays(dog: Watchdog) -> None:
    dog.check(later=10 * MINUTE)
    later = verdict_of(dog.world)
    dog.check(later=5 * MINUTE)
    assert verdict_of(dog.world) == later


def test_a_check_that_a_retirement_overtakes_leaves_neither_a_feed_on_the_page_nor_an_open_alert(
    dog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = dog.world.feed.feed
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    dog.airflow.paused = {f"{feed}_watch"}
    with monkeypatch.context() as patch:
        patch.setattr(watchdog, "find_failed_publish", lambda *_: retire(dog.world, "keep") and None)
        assert dog.check() == ["ALERT: stopped-watch_paused"]
    assert read_verdict(dog.world.services.store, feed)
    assert dog.check() == ["RECOVERED: stopped-watch_paused"]
    assert read_verdict(dog.world.services.store, feed) is None
    assert dog.world.state.names("incidents") == []
