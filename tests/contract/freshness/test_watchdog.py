"""One look of the watchdog: what it tells, what it measures, and that a failed notifier is seen."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.facts import DagActivity
from dedup_clone.orchestration import watchdog
from dedup_clone.orchestration.watchdog import look_at_feed
from dedup_clone.settings.alerts import AlertSettings, NotifierSettings
from dedup_clone.settings.freshness import ExpectedArrivals
from tests.contract.freshness.setups import setup_of
from tests.contract.publish.feed_world import FeedWorld, row


class Watchdog:
    """`told` are the titles of what was told, `gauges` the measures by name; Airflow's answers can be set."""

    def __init__(self, world: FeedWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        from airflow.sdk.observability import stats

        self.world, self.caplog = world, caplog
        self.setup: Any = setup_of(world)
        self.gauges: dict[str, float] = {}
        self.paused: set[str] = set()
        self.later = timedelta(0)
        caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
        clock = world.now
        world.now = lambda: clock() + self.later  # type: ignore[method-assign]
        monkeypatch.setattr(watchdog, "connect", lambda setup: world.services)
        monkeypatch.setattr(watchdog, "dag_activity", self.activity)
        monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
        monkeypatch.setattr(stats, "gauge", lambda name, value, tags: self.gauges.update({name: value}))

    def expect(self, when: timedelta) -> None:
        """A snapshot every day at the time that is so much later than now, half an hour of grace."""
        expected = ExpectedArrivals(times=(f"{datetime.now(UTC) + when:%H:%M}",))
        freshness = self.world.feed.freshness.model_copy(update={"expected_arrivals": expected})
        self.world.feed = self.world.feed.model_copy(update={"freshness": freshness})
        self.setup = setup_of(self.world)

    def activity(self, dag_id: str) -> DagActivity:
        return DagActivity(dag_id, dag_id in self.paused, True, None, None)

    def look(self, *, later: timedelta = timedelta(0)) -> list[str]:
        """What a look tells that comes so much later than now."""
        self.later = later
        self.caplog.clear()
        look_at_feed(self.setup)
        return self.titles()

    def titles(self) -> list[str]:
        prefix = f"[{self.world.feed.feed}] "
        lines = [r.getMessage().splitlines()[0] for r in self.caplog.records if r.name == "dedup_clone.alerts"]
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


@pytest.fixture
def dog(world: FeedWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Watchdog:
    return Watchdog(world, monkeypatch, caplog)


MINUTE = timedelta(minutes=1)


def test_a_late_delivery_gives_one_warning_one_miss_one_recovery(dog: Watchdog) -> None:
    name = dog.world.land(7, [row(7, 1)])
    assert dog.look() == []
    assert dog.look(later=40 * MINUTE) == ["WARNING: promise_at_risk"]
    assert dog.look(later=45 * MINUTE) == []
    assert dog.look(later=61 * MINUTE) == ["ALERT: promise_missed"]
    assert dog.look(later=66 * MINUTE) == []
    dog.world.publish(name)
    assert dog.look(later=71 * MINUTE) == ["RECOVERED: promise_missed"]
    assert "Readers see: snapshot 7" in dog.caplog.text
    assert dog.look(later=76 * MINUTE) == []


def test_a_snapshot_that_is_held_back_is_told_once_and_once_when_it_comes(dog: Watchdog) -> None:
    dog.expect(timedelta(hours=-3))
    assert dog.look() == ["ALERT: arrival_overdue"]
    assert dog.look(later=5 * MINUTE) == []
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    assert dog.look(later=10 * MINUTE) == ["RECOVERED: arrival_overdue"]
    assert dog.look(later=15 * MINUTE) == []


def test_the_next_snapshot_is_overdue_once_its_grace_is_over_and_not_before(dog: Watchdog) -> None:
    dog.expect(timedelta(hours=13))
    dog.world.publish(dog.world.land(7, [row(7, 1)]))
    assert dog.look(later=timedelta(hours=13, minutes=20)) == []
    assert dog.look(later=timedelta(hours=14)) == ["ALERT: arrival_overdue"]
    assert dog.look(later=timedelta(hours=15)) == []


def test_a_paused_dag_is_told_once_and_its_end_once(dog: Watchdog) -> None:
    dog.paused = {dog.setup.watch_dag_id, dog.setup.publish_dag_id}
    assert sorted(dog.look()) == ["ALERT: publish_paused", "ALERT: watch_paused"]
    assert dog.look(later=5 * MINUTE) == []
    dog.paused = {dog.setup.publish_dag_id}
    assert dog.look(later=10 * MINUTE) == ["RECOVERED: watch_paused"]


def test_each_look_emits_the_measures_of_its_feed(dog: Watchdog) -> None:
    record = dog.world.publish(dog.world.land(7, [row(7, 1), row(7, 2)]))
    dog.look()
    feed = dog.world.feed.feed
    assert dog.gauges[f"dedup_clone.rows.{feed}"] == 2
    assert dog.gauges[f"dedup_clone.lag_seconds.{feed}"] == record.lag_s
    assert dog.gauges[f"dedup_clone.incidents_open.{feed}"] == 0
    assert dog.gauges[f"dedup_clone.age_seconds.{feed}"] >= 0


def test_a_failed_notifier_fails_the_task_and_is_told_by_a_later_look(dog: Watchdog) -> None:
    broken = AlertSettings(notifiers=(NotifierSettings(class_path="nowhere.Notifier"),))
    deployment = dog.setup.deployment
    dog.setup = type(dog.setup)(dog.setup.feed, deployment.model_copy(update={"alerts": broken}), dog.setup.folders)
    dog.paused = {dog.setup.watch_dag_id}
    with pytest.raises(AlertNotSent, match=r"Notifier\(s\) failed: \[notifier 1 nowhere.Notifier\].*check their"):
        dog.look()
    assert dog.titles() == ["ALERT: watch_paused"]
    with pytest.raises(AlertNotSent):
        dog.look(later=5 * MINUTE)
    assert dog.titles() == []  # the log has heard it
