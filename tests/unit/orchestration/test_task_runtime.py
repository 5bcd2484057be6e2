"""What tasks do when Airflow's API does not answer, and after which errors they are not retried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError

from dedup_clone.contract.errors import ConfigurationError, ContractViolation, LeaseLost, LostRace
from dedup_clone.freshness.feed_state import DagActivity
from dedup_clone.orchestration.bootstrap import bootstrap_tasks
from dedup_clone.orchestration.erasure import erasure_tasks
from dedup_clone.orchestration.publish import publish_steps
from dedup_clone.orchestration.rebuild import rebuild_tasks
from dedup_clone.orchestration.shared.task_runtime import ENVIRONMENT_VARIABLE, dag_run_is_running, environment_name
from dedup_clone.orchestration.watchdog.feed_check import dag_activity
from tests.shared.task_api import TaskApi

LOST_CONNECTION = {"status_code": None, "message": "connection reset", "exception_type": "ReadError"}


def test_a_run_that_was_deleted_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = TaskApi(monkeypatch)
    airflow.add_run("publish", "run")
    assert dag_run_is_running("publish", "run")
    airflow.runs.clear()
    assert not dag_run_is_running("publish", "run")


@pytest.mark.parametrize("state", ["queued", "failed", "success"])
def test_no_task_of_a_run_that_is_queued_or_has_ended_is_at_work(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    TaskApi(monkeypatch).add_run("publish", "run", state)
    assert not dag_run_is_running("publish", "run")


@pytest.mark.parametrize("failure", [{"status_code": 500}, {"status_code": 503}, LOST_CONNECTION], ids=str)
def test_a_run_is_not_taken_for_dead_while_airflow_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, failure: dict[str, Any]
) -> None:
    TaskApi(monkeypatch).failure = failure
    with pytest.raises(AirflowRuntimeError):
        dag_run_is_running("publish", "run")


@pytest.mark.parametrize("failure", [{"status_code": 500}, LOST_CONNECTION], ids=str)
def test_a_dag_is_not_taken_for_unknown_while_airflow_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, failure: dict[str, Any]
) -> None:
    """The watchdog would report that the incident of a paused DAG has ended."""
    airflow = TaskApi(monkeypatch)
    airflow.unknown.add("watch")
    assert dag_activity("watch") is None
    airflow.failure = failure
    with pytest.raises(AirflowRuntimeError):
        dag_activity("watch")


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
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=rf"has no name.*variable \[{ENVIRONMENT_VARIABLE}"):
        environment_name()
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    assert environment_name() == "https://airflow.example.org"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "project/region/name")
    assert environment_name() == "project/region/name"


@pytest.mark.parametrize(
    ("module", "task"),
    [
        (publish_steps, lambda: publish_steps._commit_generation(None, {}, None)),  # type: ignore[arg-type]
        (publish_steps, lambda: publish_steps._reconcile_failure(None, {"dag_run": None}, None)),  # type: ignore[arg-type]
        (bootstrap_tasks, lambda: bootstrap_tasks.delete_export(None, {})),  # type: ignore[arg-type, typeddict-item]
        (rebuild_tasks, lambda: rebuild_tasks.clean(None, {})),  # type: ignore[arg-type, typeddict-item]
        (erasure_tasks, lambda: erasure_tasks.clean(None, {})),  # type: ignore[arg-type, typeddict-item]
    ],
)
@pytest.mark.parametrize("permanent", [LeaseLost("another run has it"), ContractViolation("it is damaged")])
def test_the_last_tasks_of_a_run_do_not_repeat_what_fails_for_good(
    monkeypatch: pytest.MonkeyPatch, module: Any, task: Callable[[], object], permanent: Exception
) -> None:
    error = permanent

    def fail(setup: object) -> None:
        raise error

    monkeypatch.setattr(module, "open_feed_services", fail)
    with pytest.raises(AirflowFailException, match=str(permanent)):
        task()
    error = LostRace("another one was quicker")
    with pytest.raises(LostRace):
        task()
