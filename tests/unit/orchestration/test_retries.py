"""How long tasks are retried, with Airflow's own delays, and after which errors."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.api.datamodels._generated import TIRunContext
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from google.api_core import exceptions as google

from dedup_clone.contract.errors import (
    BootstrapRefused,
    CheckFailed,
    ContractViolation,
    JobFailed,
    LeaseHeld,
    LeaseLost,
    LostRace,
    OutcomeUnknown,
    SparkRunFailed,
    SparkUnavailable,
)
from dedup_clone.orchestration.dag_factory import RetryWhatMayHelp, is_permanent, retry_arguments
from testkit.airflow import dag_run

HOUR = timedelta(hours=1)


def delays(sla: timedelta, dag_id: str) -> list[timedelta]:
    """Airflow's delay before each retry of a task of this DAG."""
    arguments, ended = retry_arguments(sla), datetime(2026, 6, 1, tzinfo=UTC)

    def delay(try_number: int) -> timedelta:
        ti: Any = SimpleNamespace(
            task=SimpleNamespace(**arguments),
            retry_delay_override=None,
            dag_id=dag_id,
            task_id="load_staging",
            logical_date=None,
            try_number=try_number,
            end_date=ended,
        )
        return TaskInstance.next_retry_datetime(ti) - ended  # type: ignore[no-any-return]

    return [delay(number) for number in range(1, arguments["retries"] + 1)]


@pytest.mark.parametrize("minutes", [1, 2, 5, 15, 60, 240, 1440])
def test_retries_go_on_for_a_good_part_of_the_sla_and_end_within_half_of_it(minutes: int) -> None:
    sla = timedelta(minutes=minutes)
    waited = sum(delays(sla, "orders_publish"), timedelta(0))
    assert sla / 6 <= waited <= sla / 2


def test_a_quota_that_refills_within_minutes_is_waited_for() -> None:
    assert sum(delays(HOUR, "orders_publish"), timedelta(0)) > timedelta(minutes=15)


def test_delays_grow_and_differ_from_feed_to_feed() -> None:
    of_feeds = [delays(HOUR, f"feed_{number}_publish")[:5] for number in range(20)]
    assert all(d == sorted(d) and d[-1] > 5 * d[0] for d in of_feeds)
    assert len({tuple(d) for d in of_feeds}) > 15


def error_of(kind: type[google.GoogleAPICallError], reason: str, message: str = "") -> google.GoogleAPICallError:
    return kind(message, errors=[{"reason": reason, "message": message}])


def job_failed(reason: str) -> JobFailed:
    return JobFailed("it failed", message="it failed", reason=reason)


TRANSIENT = [
    error_of(google.Forbidden, "quotaExceeded"),
    error_of(google.Forbidden, "rateLimitExceeded"),
    error_of(google.BadRequest, "jobRateLimitExceeded"),
    error_of(google.BadRequest, "tableUnavailable"),
    error_of(google.BadRequest, "invalidQuery", "Could not serialize access to table due to concurrent update"),
    error_of(google.BadRequest, "resourcesExceeded", "Too many DML statements outstanding against table t"),
    google.ServiceUnavailable("busy"),
    google.InternalServerError("oops"),
    google.TooManyRequests("slow down"),
    google.RetryError("gave up", None),
    google.Cancelled("the stream was reset"),
    requests.exceptions.ConnectionError("reset"),
    ConnectionResetError("reset"),
    TimeoutError("late"),
    SparkUnavailable("no machines of that type"),
    LeaseHeld("held"),
    LostRace("lost"),
    OutcomeUnknown("unknown"),
    job_failed("backendError"),
    job_failed("quotaExceeded"),
]
PERMANENT = [
    error_of(google.Forbidden, "accessDenied"),
    error_of(google.Forbidden, "forbidden", "no storage.objects.list"),
    error_of(google.NotFound, "notFound"),
    error_of(google.BadRequest, "invalidQuery", "Syntax error"),
    google.Forbidden("may not list objects"),
    google.NotFound("no such bucket"),
    CheckFailed("too many rows are new"),
    BootstrapRefused("it has surplus rows"),
    ContractViolation("not JSON"),
    LeaseLost("ended"),
    job_failed("invalidQuery"),
    job_failed("bytesBilledLimitExceeded"),
]


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {getattr(error, 'reason', '')}{getattr(error, 'errors', '') or error}"


@pytest.mark.parametrize("error", TRANSIENT, ids=described)
def test_a_transient_error_is_retried(error: Exception) -> None:
    assert not is_permanent(error)


@pytest.mark.parametrize("error", PERMANENT, ids=described)
def test_a_permanent_error_is_not(error: Exception) -> None:
    assert is_permanent(error)


class Failing(BaseOperator):
    """Raises the error when it is executed, and when it is resumed after a deferral."""

    def __init__(self, *, error: Exception, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def execute(self, context: Context) -> None:
        raise self.error

    def resume(self, context: Context, event: object = None) -> None:
        raise self.error


def run_by_worker(task: Any, next_method: str | None) -> tuple[str, Any]:
    """Airflow's own worker runs a try of the task, of which tries are left. Returns state and message."""
    ids, now = {"dag_id": task.dag_id, "run_id": "run"}, datetime.now(UTC)
    run = dag_run(**ids, run_after=now, start_date=now)
    ti = RuntimeTaskInstance.model_construct(
        **ids,
        id=uuid.uuid4(),
        task_id=task.task_id,
        try_number=1,
        map_index=-1,
        task=task,
        start_date=now,
        _ti_context_from_server=TIRunContext(
            dag_run=run, max_tries=5, should_retry=True, next_method=next_method, next_kwargs={}
        ),
    )
    context: Any = {"ti": ti, "task": task, "dag": task.dag, "dag_run": run, "run_id": "run", "params": {}}
    context["outlet_events"] = OutletEventAccessors()
    state, message, _ = task_runner.run(ti, context, Mock())
    return str(state.value), message


@pytest.mark.parametrize(("error", "state"), [(LeaseLost("ended"), "failed"), (LostRace("lost"), "up_for_retry")])
@pytest.mark.parametrize("next_method", [None, "resume"], ids=["at first", "after a deferral"])
def test_a_worker_fails_a_task_at_once_if_no_retry_can_help(
    monkeypatch: pytest.MonkeyPatch, next_method: str | None, error: Exception, state: str
) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=lambda msg: None), raising=False)
    with DAG("orders_publish", schedule=None, default_args=retry_arguments(HOUR)):
        task = Failing(task_id="load_staging", error=error)
    assert run_by_worker(task, next_method)[0] == state


@pytest.mark.parametrize(
    ("try_number", "max_tries", "action"),
    [(3, 10, "default"), (4, 10, "fail"), (7, 16, "default"), (9, 16, "default"), (10, 16, "fail")],
    ids=["third", "fourth", "first_after_clear", "third_after_clear", "fourth_after_clear"],
)
def test_four_runs_of_spark_may_fail_and_four_more_after_the_task_is_cleared(
    try_number: int, max_tries: int, action: str
) -> None:
    """Airflow adds the retries of a cleared task, here 10 after six tries, to the number of its tries."""
    context: Any = {"task": SimpleNamespace(retries=10)}
    decision = RetryWhatMayHelp().evaluate(SparkRunFailed("lost"), try_number, max_tries, context)
    assert decision.action.value == action
