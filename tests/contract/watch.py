"""Runs the watch DAG's sensor on a test's feed, and simulates the publish runs that Airflow knows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.watch import delivery_sensor
from dedup_clone.orchestration.watch.delivery_sensor import DeliverySensor
from dedup_clone.orchestration.watch.publish_runs import (
    FailedPublish,
    find_failed_publish,
)
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn
from tests.shared.task_api import TaskApi


class Watch:
    """The sensor of one feed. `dag_id`: of its publish DAG. `airflow`: answers the sensor's questions about runs.

    `later`: by how much the feed's clock is ahead of the real time.
    """

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.airflow = TaskApi(monkeypatch)
        self.later = timedelta(0)
        clock = world.now
        world.now = lambda: clock() + self.later  # type: ignore[method-assign]
        monkeypatch.setattr(delivery_sensor, "open_feed_services", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.dag_id = setup.dag_id("publish")
        self.sensor = DeliverySensor(task_id="notice_delivery", setup=setup)

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
        for run_id in found:
            self.airflow.add_run(self.dag_id, run_id)
        return found

    def fail(self, run_id: str) -> None:
        self.end(run_id, "failed")

    def end(self, run_id: str, state: str) -> None:
        self.airflow.add_run(self.dag_id, run_id, state, end_date=self.world.now())

    def failed(self) -> FailedPublish:
        """The failed publish that the sensor finds for the deliveries that wait."""
        found = find_failed_publish(self.world.services, self.dag_id, self.waiting)
        assert found
        return found

    @property
    def waiting(self) -> tuple[Delivery, ...]:
        return find_backlog(self.world.services, None).apply
