"""The callback of a missed deadline, on a real state bucket: it alerts once, or not at all, and never fails."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType

from dedup_clone.orchestration.publish import missed_deadline
from dedup_clone.orchestration.publish.freshness_deadline import freshness_deadline
from dedup_clone.orchestration.publish.missed_deadline import notify_missed_deadline
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.retired import Retirement, TargetAction
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.feed_setups import setup_of


@pytest.fixture(autouse=True)
def hook(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", '{"conn_type": "google_cloud_platform"}')
    monkeypatch.setattr(GCSHook, "get_conn", lambda self: world.storage)


class Callback:
    """Calls it as the triggerer does; `call` returns the titles of the alerts."""

    def __init__(self, world: FeedOnStandIn, caplog: pytest.LogCaptureFixture) -> None:
        self.world = world
        self.caplog = caplog
        caplog.set_level(logging.INFO)

    def call(self, dag_run: Any, **changes: Any) -> list[str]:
        feed = self.world.feed.feed
        arguments = {
            "feed": feed,
            "sla_minutes": 60,
            "state_bucket": "state",
            "connection": "google_cloud_default",
            "alerts": AlertSettings().model_dump(mode="json"),
            **changes,
        }
        self.caplog.clear()
        context = {"dag_run": dag_run, "deadline": {"id": "x", "deadline_time": datetime.now(UTC)}}
        assert asyncio.run(notify_missed_deadline(context=context, **arguments)) is None
        return [r.getMessage().splitlines()[0] for r in self.caplog.records if r.name == "dedup_clone.alerts"]


@pytest.fixture
def callback(world: FeedOnStandIn, caplog: pytest.LogCaptureFixture) -> Callback:
    return Callback(world, caplog)


def run_of(name: str, *, arrived: timedelta | None, run_id: str = "") -> dict[str, Any]:
    """A run as the deadline's context describes it; without `run_id`, an automatic one of the delivery."""
    snapshot, generation = name.split("-")
    conf: dict[str, Any] = {"snapshot_id": snapshot, "marker_generation": generation}
    if arrived is not None:
        conf["arrived_at"] = (datetime.now(UTC) - arrived).isoformat()
    fields = {
        **dict.fromkeys(DAGRunResponse.model_fields),
        "dag_id": "sales_publish",
        "dag_model": {"dag_display_name": "sales_publish"},
        "run_id": run_id or f"publish__{snapshot}__{generation}",
        "queued_at": datetime.now(UTC) - timedelta(minutes=70),
        "run_after": datetime(2026, 1, 1, tzinfo=UTC),
        "run_type": DagRunType.MANUAL,
        "state": DagRunState.RUNNING,
        "conf": conf,
        "dag_versions": [],
    }
    return DAGRunResponse.model_validate(fields).model_dump(mode="json")  # as airflow.models.deadline makes it


LATE = timedelta(minutes=61)
MISSED = "ALERT: freshness SLA missed (promise_missed)"


def test_a_miss_is_reported_once_with_lag_task_and_link(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    run_id = f"publish__{name.replace('-', '__')}"
    world.resolve(name, run_id=run_id)
    assert callback.call(run_of(name, arrived=LATE)) == [f"[{world.feed.feed}] {MISSED}"]
    message = callback.caplog.text
    assert "snapshot 7 arrived" in message
    assert "61 min ago, and is not live; the freshness SLA is 60 min" in message
    assert f"Run [{run_id}] is running and has reached task [dedup_snapshot]." in message
    assert f"/dags/{world.feed.feed}_publish/runs/{run_id}" in message
    assert callback.call(run_of(name, arrived=LATE)) == []


def test_nothing_is_reported_when_another_run_published_the_delivery_in_time(
    world: FeedOnStandIn, callback: Callback
) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    assert callback.call(run_of(name, arrived=timedelta(minutes=1))) == []


def test_a_delivery_that_went_live_too_late_is_reported(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    alerts = callback.call(run_of(name, arrived=timedelta(minutes=100)))
    assert alerts == [f"[{world.feed.feed}] {MISSED}"]
    assert re.search(r"took (9\d|100) min from arrival to swap", callback.caplog.text)


def test_a_superseded_delivery_is_nobody_s_miss(world: FeedOnStandIn, callback: Callback) -> None:
    first = world.land(7, [row(7, 1)])
    world.publish(world.land(7, [row(7, 1, 21)]))
    assert callback.call(run_of(first, arrived=LATE)) == []


def test_a_refused_delivery_has_an_alert_of_its_own(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    (delivery,) = world.services.arrivals.deliveries()
    world.services.arrivals.refuse(Refusal(delivery, "why", "run", datetime.now(UTC)))
    assert callback.call(run_of(name, arrived=LATE)) == []


def test_a_retired_feed_misses_no_deadline(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    retirement = Retirement(1, world.feed.feed, datetime.now(UTC), "run", "over", TargetAction.KEEP, "", None, 0)
    world.services.retired.write(retirement)
    assert callback.call(run_of(name, arrived=LATE)) == []
    assert callback.call(run_of(name, arrived=None, run_id="manual__1")) == []


def test_a_slow_replay_is_reported_and_leaves_no_record(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    replay = run_of(name, arrived=None, run_id="manual__1")
    assert callback.call(replay) == [f"[{world.feed.feed}] WARNING: replay_late"]
    assert "was triggered 70 min ago" in callback.caplog.text
    assert list(world.services.store.objects(world.services.layout.incidents)) == []


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_replay_that_has_ended_pages_nobody(world: FeedOnStandIn, callback: Callback, state: str) -> None:
    """A mistyped replay and a dry run end in their first task, and somebody who starts a run sees it fail."""
    name = world.land(7, [row(7, 1)])
    assert callback.call({**run_of(name, arrived=None, run_id="manual__1"), "state": state}) == []


def test_it_is_reported_although_the_state_bucket_cannot_be_read(
    world: FeedOnStandIn, callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(missed_deadline, "check_late_run", fail)
    alerts = callback.call(run_of("7-1", arrived=LATE))
    assert alerts == [f"[{world.feed.feed}] {MISSED}"]
    assert "the state bucket cannot be read (ConnectionError: no route)" in callback.caplog.text


def test_a_replay_that_has_ended_pages_nobody_either_if_the_state_bucket_cannot_be_read(
    callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_deadline, "check_late_run", Mock(side_effect=ConnectionError("no route")))
    assert callback.call({**run_of("7-1", arrived=None, run_id="manual__1"), "state": "failed"}) == []
    assert len(callback.call(run_of("7-1", arrived=None, run_id="manual__1"))) == 1


def test_a_run_by_hand_with_the_configuration_of_an_automatic_one_is_a_replay(
    world: FeedOnStandIn, callback: Callback
) -> None:
    name = world.land(7, [row(7, 1)])
    assert callback.call({**run_of(name, arrived=LATE, run_id="manual__1"), "state": "failed"}) == []


@pytest.mark.parametrize("dag_run", [None, {}, {"conf": "x"}, {"dag_run_id": 7, "queued_at": "never"}], ids=repr)
def test_whatever_airflow_hands_over_it_does_not_raise(callback: Callback, dag_run: Any) -> None:
    assert callback.call(dag_run) == []


def test_alert_settings_of_another_version_do_not_raise(callback: Callback) -> None:
    assert callback.call(run_of("7-1", arrived=LATE), alerts={"pigeons": 2}) == []


def test_the_deadline_hands_over_what_the_callback_takes(world: FeedOnStandIn, callback: Callback) -> None:
    deadline = freshness_deadline(setup_of(world))
    assert deadline.interval == timedelta(minutes=world.feed.freshness.sla_minutes)
    kwargs = deadline.callback.kwargs
    name = world.land(7, [row(7, 1)])
    assert callback.call(run_of(name, arrived=LATE), **kwargs) == [f"[{world.feed.feed}] {MISSED}"]
