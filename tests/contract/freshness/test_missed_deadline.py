"""The deadline of a run on a real state bucket: it counts from the arrival, and alerts once or not at all."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse
from airflow.sdk.definitions.param import ParamsDict
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType

from dedup_clone.orchestration.publish import missed_deadline
from dedup_clone.orchestration.publish.freshness_deadline import arrival_of, freshness_deadline
from dedup_clone.orchestration.publish.missed_deadline import notify_missed_deadline
from dedup_clone.orchestration.publish.publish_form import publish_params, read_publish_request
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.retired import Retirement, TargetAction
from testkit.airflow import TaskApi
from testkit.dag_tasks import Watch, setup_of
from testkit.feed_on_stand_in import FeedOnStandIn, row

LATE = timedelta(minutes=61)
MISSED = ["ALERT: sla_missed"]


class Callback:
    """Calls the callback as the triggerer does; `call` returns the titles of the alerts."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        from airflow.providers.google.cloud.hooks.gcs import GCSHook

        monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", '{"conn_type": "google_cloud_platform"}')
        monkeypatch.setattr(GCSHook, "get_conn", lambda self: world.storage)
        self.world, self.caplog = world, caplog
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
        asyncio.run(notify_missed_deadline(context=context, **arguments))
        titles = [r.getMessage().splitlines()[0] for r in self.caplog.records if r.name == "dedup_clone.alerts"]
        return [title.removeprefix(f"[{feed}] ") for title in titles]


@pytest.fixture
def callback(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callback:
    return Callback(world, monkeypatch, caplog)


def run_of(name: str, *, arrived: timedelta | None = LATE, run_id: str = "", state: str = "running") -> dict[str, Any]:
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
        "state": DagRunState(state),
        "conf": conf,
        "dag_versions": [],
    }
    return DAGRunResponse.model_validate(fields).model_dump(mode="json")  # as airflow.models.deadline makes it


def test_a_miss_is_reported_once_with_lag_task_and_link(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    run_id = f"publish__{name.replace('-', '__')}"
    world.resolve(name, run_id=run_id)
    deadline = freshness_deadline(setup_of(world))
    assert deadline.interval == timedelta(minutes=60)
    assert callback.call(run_of(name), **deadline.callback.kwargs) == MISSED
    message = callback.caplog.text
    assert "61 min ago, and is not live; the freshness SLA is 60 min" in message
    assert f"Run [{run_id}] is running and has reached task [dedup_snapshot]." in message
    assert f"/dags/{world.feed.feed}_publish/runs/{run_id}" in message
    assert callback.call(run_of(name)) == []


def test_a_delivery_that_went_live_counts_by_its_lag(world: FeedOnStandIn, callback: Callback) -> None:
    first = world.land(7, [row(7, 1)])
    second = world.land(7, [row(7, 1, 21)])
    world.publish(second)
    assert callback.call(run_of(first)) == [], "it was superseded"
    assert callback.call(run_of(second, arrived=timedelta(minutes=1))) == []
    assert callback.call(run_of(second, arrived=timedelta(minutes=100))) == MISSED


def test_a_refused_delivery_and_a_retired_feed_miss_no_deadline(world: FeedOnStandIn, callback: Callback) -> None:
    name = world.land(7, [row(7, 1)])
    (delivery,) = world.services.arrivals.deliveries()
    world.services.arrivals.refuse(Refusal(delivery, "why", "run", datetime.now(UTC)))
    assert callback.call(run_of(name)) == []
    name = world.land(8, [row(8, 1)])
    retirement = Retirement(world.feed.feed, datetime.now(UTC), "run", "over", TargetAction.KEEP, "", None, 0)
    world.services.retired.write(retirement)
    assert callback.call(run_of(name)) == []
    assert callback.call(run_of(name, arrived=None, run_id="manual__1")) == []


@pytest.mark.parametrize("can_read", [True, False], ids=["", "the state bucket cannot be read"])
def test_a_replay_is_reported_while_it_runs_and_leaves_no_record(
    world: FeedOnStandIn, callback: Callback, monkeypatch: pytest.MonkeyPatch, can_read: bool
) -> None:
    """A mistyped replay and a dry run end in their first task, and somebody who starts a run sees it fail."""
    name = world.land(7, [row(7, 1)])
    if not can_read:
        monkeypatch.setattr(missed_deadline, "check_late_run", Mock(side_effect=ConnectionError("no route")))
        assert callback.call(run_of("9-1")) == MISSED
        assert "no route" in callback.caplog.text
    for state in ("failed", "success"):
        assert callback.call(run_of(name, arrived=None, run_id="manual__1", state=state)) == []
        # Also with the configuration of an automatic run.
        assert callback.call(run_of(name, run_id="manual__1", state=state)) == []
    assert len(callback.call(run_of(name, arrived=None, run_id="manual__1"))) == 1
    if can_read:
        assert list(world.services.store.objects(world.services.layout.incidents)) == []


@pytest.mark.parametrize("dag_run", [None, {}, {"conf": "x"}, {"dag_run_id": 7, "queued_at": "never"}], ids=repr)
def test_whatever_airflow_hands_over_it_does_not_raise(callback: Callback, dag_run: Any) -> None:
    assert callback.call(dag_run) == []
    assert callback.call(run_of("7-1"), alerts={"pigeons": 2}) == []


def test_the_watch_dag_hands_over_the_markers_creation_although_landing_was_cleaned(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, context = Watch(world, TaskApi(monkeypatch), monkeypatch), {}
    watch.mark(7)
    for is_clean in (False, True):
        if is_clean:
            world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/snapshot_id=7/_SUCCESS").delete()
        (run,) = watch.sensor.register_deliveries(context, {"message": "found a marker"})  # type: ignore[arg-type]
        (delivery,) = world.services.arrivals.deliveries()
        arrived = arrival_of(run["conf"], run["trigger_run_id"])
        assert arrived is not None
        assert abs(arrived - world.services.arrivals.read(delivery).arrived_at) < timedelta(milliseconds=1)
    form = ParamsDict(publish_params(world.feed))
    form.update(run["conf"])
    filled: Any = {"params": form.validate(), "dag_run": SimpleNamespace(dag_id="", run_id=run["trigger_run_id"])}
    request = read_publish_request(world.services, filled)
    assert (request.delivery.snapshot_id, request.replay, request.reason) == (7, False, "")
