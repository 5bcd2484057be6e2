"""What tasks do if Airflow does not answer; the triggers of many feeds."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.freshness.feed_state import DagActivity
from dedup_clone.orchestration.setup import dag_run_is_running, environment_name
from dedup_clone.orchestration.watch import notice_delivery
from dedup_clone.orchestration.watch.notice_delivery import DeliveryTrigger
from dedup_clone.orchestration.watchdog.feed_check import dag_activity
from testkit.airflow import TaskApi

LOST_CONNECTION = {"status_code": None, "message": "connection reset", "exception_type": "ReadError"}


def test_only_a_run_that_is_running_may_be_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = TaskApi(monkeypatch)
    assert not dag_run_is_running("publish", "run"), "it was deleted"
    for state in ("running", "queued", "failed", "success"):
        airflow.add_run("publish", "run", state)
        assert dag_run_is_running("publish", "run") is (state == "running")


@pytest.mark.parametrize("failure", [{"status_code": 500}, {"status_code": 503}, LOST_CONNECTION], ids=str)
def test_nothing_is_taken_for_dead_or_unknown_while_airflow_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, failure: dict[str, Any]
) -> None:
    """The watchdog would report that the incident of a paused DAG has ended."""
    airflow = TaskApi(monkeypatch)
    airflow.unknown.add("watch")
    assert dag_activity("watch") is None
    airflow.failure = failure
    with pytest.raises(AirflowRuntimeError):
        dag_activity("watch")
    with pytest.raises(AirflowRuntimeError):
        dag_run_is_running("publish", "run")


def test_what_airflow_knows_of_a_dag_and_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that a person started have no logical date, and do not count as the last one."""
    airflow, day = TaskApi(monkeypatch), datetime(2026, 3, 1, tzinfo=UTC)
    for hour, state in enumerate(("failed", "failed", "success", "running")):
        at = day.replace(hour=hour)
        airflow.add_run("watch", f"scheduled__{hour}", state, logical_date=at, end_date=at)
    airflow.add_run("watch", "manual__1", "failed", end_date=day.replace(hour=9))
    succeeded_at, failed_at = day.replace(hour=2), day.replace(hour=1)
    assert dag_activity("watch") == DagActivity("watch", False, True, succeeded_at, failed_at)


@pytest.mark.parametrize("address", ["", "http://localhost:8080", "http://127.0.0.1:28080/"])
def test_an_environment_without_a_name_of_its_own_does_nothing(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", address)
    monkeypatch.delenv("DEDUP_CLONE_ENVIRONMENT", raising=False)
    with pytest.raises(ConfigurationError, match="DEDUP_CLONE_ENVIRONMENT"):
        environment_name()
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    assert environment_name() == "https://airflow.example.org"
    monkeypatch.setenv("DEDUP_CLONE_ENVIRONMENT", "project/region/name")
    assert environment_name() == "project/region/name"


class SlowLanding:
    """A landing whose listing ends only while as many others run as shall run side by side."""

    def __init__(self) -> None:
        self._others = threading.Barrier(16, timeout=60)

    def new_markers(self) -> list[SimpleNamespace]:
        self._others.wait()
        return [SimpleNamespace(delivery=SimpleNamespace(name="7-1"))]


def trigger_of(feed: str, connection: str = "google_cloud_default") -> DeliveryTrigger:
    return DeliveryTrigger(
        connection=connection,
        landing_bucket="landing",
        state_bucket="state",
        feed=feed,
        prefix=feed,
        marker="_SUCCESS",
        interval_s=15.0,
        limit_s=15.0,
    )


def test_the_triggers_of_all_feeds_share_their_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_bucket(connection: str, gcs_bucket: str) -> None:
        opened.append(gcs_bucket)

    monkeypatch.setattr(notice_delivery, "open_gcs_bucket", open_bucket)
    for number in range(5):
        trigger_of(f"feed_{number}", connection="of this test")._open()
    assert sorted(opened) == ["landing", "state"]


def test_triggers_list_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    landing = SlowLanding()
    monkeypatch.setattr(notice_delivery, "MAX_FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(DeliveryTrigger, "_open", lambda trigger: landing)

    async def first_event(number: int) -> str:
        return str((await anext(trigger_of(f"feed_{number}").run())).payload)

    async def first_events() -> list[str]:
        return await asyncio.gather(*map(first_event, range(16)))

    assert asyncio.run(first_events()) == ["found markers of deliveries [7-1]"] * 16
