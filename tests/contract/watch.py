"""Runs the watch DAG's sensor on a test's feed, and simulates the publish runs that Airflow knows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.watch import delivery_sensor, publish_runs
from dedup_clone.orchestration.watch.delivery_sensor import DeliverySensor
from dedup_clone.orchestration.watch.publish_runs import (
    FailedPublish,
    find_failed_publish,
)
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn


class Watch:
    """The sensor of one feed. `runs`: the publish runs that Airflow knows, by id.

    `later`: by how much the feed's clock is ahead of the real time.
    """

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.runs: dict[str, SimpleNamespace] = {}
        self.later = timedelta(0)
        clock = world.now
        world.now = lambda: clock() + self.later  # type: ignore[method-assign]
        monkeypatch.setattr(delivery_sensor, "open_feed_services", lambda setup: world.services)
        monkeypatch.setattr(publish_runs, "RuntimeTaskInstance", self)
        monkeypatch.setattr(publish_runs, "find_run", lambda dag_id, run_id: self.runs.get(run_id))
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.sensor = DeliverySensor(task_id="notice_delivery", setup=setup)

    # Airflow's name: this object takes the place of RuntimeTaskInstance.
    def get_dr_count(self, dag_id: str, *, run_ids: list[str], states: list[str] | None = None) -> int:
        return sum(run_id in run_ids and (not states or run.state in states) for run_id, run in self.runs.items())

    def mark(self, *snapshot_ids: int) -> None:
        """Upload the markers of these snapshots."""
        bucket = self.world.storage.bucket("landing")
        for snapshot_id in snapshot_ids:
            name = f"{self.world.feed.landing.prefix}/snapshot_id={snapshot_id}/_SUCCESS"
            bucket.blob(name).upload_from_string("")

    def register(self) -> list[str]:
        """Register the deliveries in landing. Returns the ids of the runs to start, which Airflow then knows."""
        context: Any = {}
        found = [
            item["trigger_run_id"] for item in self.sensor.register_deliveries(context, {"message": "found a marker"})
        ]
        self.runs |= {i: SimpleNamespace(run_id=i, state="running", end_date=None) for i in found}
        return found

    def fail(self, run_id: str) -> None:
        self.end(run_id, "failed")

    def end(self, run_id: str, state: str) -> None:
        self.runs[run_id] = SimpleNamespace(run_id=run_id, state=state, end_date=self.world.now())

    def failed(self) -> FailedPublish:
        """The failed publish that the sensor finds for the deliveries that wait."""
        found = find_failed_publish(self.world.services, "publish", self.waiting)
        assert found
        return found

    @property
    def waiting(self) -> tuple[Delivery, ...]:
        return find_backlog(self.world.services, None).apply
