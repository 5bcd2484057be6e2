"""The watch task on a real landing bucket: which deliveries get a run, whatever Airflow missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.watch import delivery_sensor
from dedup_clone.orchestration.watch.delivery_sensor import RECENT_DELIVERIES, DeliverySensor, publish_run_id
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, row


class Watch:
    """The sensor of one feed; `runs` are the ids of publish runs that Airflow knows."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.runs: set[str] = set()
        monkeypatch.setattr(delivery_sensor, "open_feed_services", lambda setup: world.services)
        monkeypatch.setattr(delivery_sensor, "RuntimeTaskInstance", self)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.sensor = DeliverySensor(task_id="notice_delivery", setup=setup)

    def get_dr_count(self, dag_id: str, *, run_ids: list[str]) -> int:
        return len(self.runs.intersection(run_ids))

    def mark(self, *snapshot_ids: int) -> None:
        bucket = self.world.storage.bucket("landing")
        for snapshot_id in snapshot_ids:
            name = f"{self.world.feed.landing.prefix}/snapshot_id={snapshot_id}/_SUCCESS"
            bucket.blob(name).upload_from_string("")

    def look(self) -> list[str]:
        """The runs that this look starts; Airflow has them from then on."""
        context: Any = {}
        found = [item["trigger_run_id"] for item in self.sensor.register_deliveries(context, {"message": "looks"})]
        self.runs.update(found)
        return found


@pytest.fixture
def watch(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(world, monkeypatch)


def test_each_delivery_gets_its_run_once(watch: Watch) -> None:
    watch.mark(7, 8)
    assert [run.split("__")[1] for run in watch.look()] == ["7", "8"]
    assert watch.look() == []


def test_a_marker_that_is_written_again_is_a_delivery_of_its_own(watch: Watch) -> None:
    watch.mark(7)
    (first,) = watch.look()
    watch.mark(7)
    (second,) = watch.look()
    assert first != second


def test_an_outage_of_any_length_loses_no_delivery(watch: Watch) -> None:
    missed = range(1, RECENT_DELIVERIES + 31)
    watch.mark(*missed)
    assert len(watch.look()) == len(missed)
    assert watch.look() == []


def test_a_run_that_was_lost_between_registration_and_start_is_started_later(watch: Watch) -> None:
    missed = range(1, RECENT_DELIVERIES + 31)
    watch.mark(*missed)
    watch.look()
    watch.runs.clear()
    assert len(watch.look()) == len(missed)


def test_deliveries_that_are_long_accounted_for_get_no_new_run(watch: Watch) -> None:
    watch.world.publish(watch.world.land(1, [row(1, 1)]))
    old = publish_run_id(watch.world.services.arrivals.deliveries()[0])
    watch.mark(*range(2, RECENT_DELIVERIES + 2))
    assert old not in watch.look()
