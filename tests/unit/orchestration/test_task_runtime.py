"""What tasks do when Airflow's API does not answer, and after which errors they are not retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.errors import ConfigurationError, ContractViolation, LeaseLost, LostRace
from dedup_clone.orchestration.bootstrap import bootstrap_tasks
from dedup_clone.orchestration.erasure import erasure_tasks
from dedup_clone.orchestration.publish import publish_steps
from dedup_clone.orchestration.rebuild import rebuild_tasks
from dedup_clone.orchestration.shared.task_runtime import ENVIRONMENT_VARIABLE, dag_run_is_running, environment_name
from dedup_clone.orchestration.watchdog.feed_check import dag_activity


def answer(monkeypatch: pytest.MonkeyPatch, status_code: int | None) -> None:
    def fail(*arguments: str) -> None:
        detail = {"status_code": status_code, "message": "as the supervisor says it"}
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))

    for question in ("get_dagrun_state", "get_dag"):
        monkeypatch.setattr(RuntimeTaskInstance, question, staticmethod(fail))


def test_a_run_that_was_deleted_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 404)
    assert not dag_run_is_running("publish", "run")


@pytest.mark.parametrize("status_code", [500, 503, None])  # None: the connection was lost
def test_a_run_is_not_taken_for_dead_while_airflow_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, status_code: int | None
) -> None:
    answer(monkeypatch, status_code)
    with pytest.raises(AirflowRuntimeError):
        dag_run_is_running("publish", "run")


@pytest.mark.parametrize("status_code", [500, None])
def test_a_dag_is_not_taken_for_unknown_while_airflow_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, status_code: int | None
) -> None:
    """The watchdog would report that the incident of a paused DAG has ended."""
    answer(monkeypatch, 404)
    assert dag_activity("watch") is None
    answer(monkeypatch, status_code)
    with pytest.raises(AirflowRuntimeError):
        dag_activity("watch")


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
