"""Runs the watchdog's check of a test's feed, and simulates Airflow's answers."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.orchestration.watchdog import feed_check as watchdog
from dedup_clone.orchestration.watchdog.feed_check import check_feed
from dedup_clone.settings.freshness_settings import ExpectedArrivals
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.contract.feed_setups import setup_of
from tests.shared.task_api import TaskApi


class Watchdog:
    """The check of one feed. `gauges`: the metrics that it emitted, by name.

    `airflow`: answers its questions about DAGs and runs; a run of the watch DAG is active. `later`: by how much the
    feed's clock is ahead of the real time.
    """

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        from airflow.sdk.observability import stats

        self.world, self.caplog = world, caplog
        self.setup: Any = setup_of(world)
        self.gauges: dict[str, float] = {}
        self.airflow = TaskApi(monkeypatch)
        self.airflow.add_run(self.setup.dag_id("watch"), "scheduled__1")
        self.later = timedelta(0)
        caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
        clock = world.now
        world.now = lambda: clock() + self.later  # type: ignore[method-assign]
        monkeypatch.setattr(watchdog, "open_feed_services", lambda setup, clients=None: world.services)
        monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
        monkeypatch.setattr(stats, "gauge", lambda name, value, tags: self.gauges.update({name: value}))

    def expect(self, when: timedelta) -> None:
        """Expect a snapshot every day at the time of day that is `when` after now, with half an hour of grace."""
        expected = ExpectedArrivals(times=(f"{datetime.now(UTC) + when:%H:%M}",))
        freshness = self.world.feed.freshness.model_copy(update={"expected_arrivals": expected})
        self.world.feed = self.world.feed.model_copy(update={"freshness": freshness})
        self.setup = setup_of(self.world)

    def check(self, *, later: timedelta = timedelta(0)) -> list[str]:
        """Run a check `later` after now. Returns the titles of the alerts that it sends."""
        self.later = later
        self.caplog.clear()
        check_feed(self.setup)
        return self.titles()

    def titles(self) -> list[str]:
        """The titles of the feed's alerts in the log since the last check began."""
        prefix = f"[{self.world.feed.feed}] "
        lines = [r.getMessage().splitlines()[0] for r in self.caplog.records if r.name == "dedup_clone.alerts"]
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
