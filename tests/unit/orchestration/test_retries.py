"""How long tasks are retried, with Airflow's own delays, and after which errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from airflow.models.taskinstance import TaskInstance
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from google.api_core import exceptions as google

from dedup_clone.contract.errors import (
    CheckFailed,
    ContractViolation,
    JobFailed,
    LeaseHeld,
    LeaseLost,
    LostRace,
    OutcomeUnknown,
    SparkUnavailable,
)
from dedup_clone.orchestration.retries import is_permanent, retry_arguments
from dedup_clone.orchestration.task_runtime import fail_without_retry

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


def job_failed(reason: str, message: str = "it failed") -> JobFailed:
    return JobFailed(message, message=message, reason=reason)


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
    with pytest.raises(type(error)), fail_without_retry():
        raise error


@pytest.mark.parametrize("error", PERMANENT, ids=described)
def test_a_permanent_error_fails_at_once(error: Exception) -> None:
    with pytest.raises(AirflowFailException), fail_without_retry():
        raise error


@pytest.mark.parametrize("signal", [AirflowSkipException("nothing to do"), AirflowFailException("failed already")])
def test_airflows_own_signals_pass(signal: Exception) -> None:
    with pytest.raises(type(signal), match=str(signal)), fail_without_retry():
        raise signal
