"""The watch DAG gives each run the arrival that its deadline counts from."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict

from dedup_clone.orchestration.publish.freshness_deadline import arrival_of
from dedup_clone.orchestration.publish.publish_form import publish_params, read_publish_request
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.contract.watch import Watch


@pytest.fixture
def watch(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(world, monkeypatch)


def runs_to_start(watch: Watch) -> list[dict[str, Any]]:
    context: Any = {}
    return watch.sensor.register_deliveries(context, {"message": "found a marker"})


def test_the_arrival_is_the_marker_s_creation(watch: Watch) -> None:
    watch.mark(7)
    (run,) = runs_to_start(watch)
    (delivery,) = watch.world.services.arrivals.deliveries()
    assert arrival_of(run["conf"], run["trigger_run_id"]) == watch.world.services.arrivals.read(delivery).arrived_at


def test_the_arrival_is_known_although_landing_was_cleaned_before_the_run_started(watch: Watch) -> None:
    watch.mark(7)
    runs_to_start(watch)
    watch.world.storage.bucket("landing").blob(f"{watch.world.feed.landing.prefix}/snapshot_id=7/_SUCCESS").delete()
    (run,) = runs_to_start(watch)
    (delivery,) = watch.world.services.arrivals.deliveries()
    arrived = arrival_of(run["conf"], run["trigger_run_id"])
    assert arrived is not None
    assert abs(arrived - watch.world.services.arrivals.read(delivery).arrived_at) < timedelta(milliseconds=1)


def test_the_form_takes_what_the_watch_dag_hands_over(watch: Watch) -> None:
    watch.mark(7)
    (run,) = runs_to_start(watch)
    form = ParamsDict(publish_params(watch.world.feed))
    form.update(run["conf"])
    context: Any = {"params": form.validate(), "dag_run": SimpleNamespace(dag_id="", run_id=run["trigger_run_id"])}
    request = read_publish_request(watch.world.services, context)
    assert (request.delivery.snapshot_id, request.replay, request.reason) == (7, False, "")
