"""Decides after which errors a task is retried, and for how long.

Exhausted quotas, rate limits, missing capacity, errors of the service and lost connections pass by themselves.
A task that fails with one of these, or with an error of an unknown kind, is retried with growing, random delays, within
half of the freshness SLA. After an error that every retry would meet again, such as a failed check, the task fails at
once. Tasks need not know: Airflow's worker asks the DAG's retry policy after each error of a task.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy

from dedup_clone.contract.errors import (
    ApprovalTooLate,
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    ContractViolation,
    DeliveryRefused,
    FeedHeldElsewhere,
    JobFailed,
    LeaseLost,
    RollbackRefused,
)

FIRST_DELAY = timedelta(seconds=10)
_PERMANENT_ERRORS = (
    ApprovalTooLate,
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    ContractViolation,
    DeliveryRefused,
    FeedHeldElsewhere,
    LeaseLost,
    RollbackRefused,
)
# Reasons of errors for which a retry does not help (BigQuery's page "Error messages"; the last line: Cloud Storage's
# page "HTTP status and error codes for JSON").
_PERMANENT_REASONS = frozenset(
    {
        *("accessDenied", "badRequest", "billingNotEnabled", "billingTierLimitExceeded", "bytesBilledLimitExceeded"),
        *("invalid", "invalidQuery", "invalidUser", "notFound", "notImplemented"),
        *("resourcesExceeded", "responseTooLarge"),
        *("forbidden", "insufficientPermissions", "accountDisabled", "retentionPolicyNotMet"),
    }
)
# Messages of errors that pass although their reason is permanent: BigQuery reports `invalidQuery` when statements
# change one table at the same moment, `resourcesExceeded` when too many statements wait for one table.
_CONCURRENT_DML = ("could not serialize access", "too many dml statements outstanding")
# Statuses from 400 to 499 after which a retry can succeed.
_TRANSIENT_STATUS = frozenset({401, 408, 409, 412, 425, 429, 499})  # 499: a gRPC call that was cut off


def retry_arguments(sla: timedelta) -> dict[str, Any]:
    """Arguments of tasks whose delays before retries add up to at most half of the freshness SLA.

    Each delay is random, between a base and twice that base. The base doubles with each retry; no delay exceeds a
    twelfth of the SLA. The number of retries assumes the longest delays.
    """
    budget, longest = sla / 2, max(sla / 12, timedelta(seconds=1))
    first = min(FIRST_DELAY, longest)
    retries, spent = 0, timedelta(0)
    while True:
        spent += min(2 * first * 2**retries, longest)
        if spent > budget:
            break
        retries += 1
    return {
        "retries": retries,
        "retry_delay": first,
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": longest,
        "retry_policy": RetryWhatMayHelp(),
    }


class RetryWhatMayHelp(RetryPolicy):
    """Fails a task at once after an error for which no retry can help."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        if is_permanent(exception):
            return RetryDecision.fail("a retry would fail the same way")
        return RetryDecision.default()


def is_permanent(error: BaseException) -> bool:
    """Whether a retry would fail the same way. An error of an unknown kind counts as transient."""
    from google.api_core.exceptions import GoogleAPICallError

    if isinstance(error, JobFailed):
        return _is_permanent_reason(error.reason, error.message)
    if isinstance(error, GoogleAPICallError):
        reasons = [str(item.get("reason")) for item in error.errors if isinstance(item, dict) and item.get("reason")]
        if reasons:
            return any(_is_permanent_reason(reason, error.message) for reason in reasons)
        return error.code is not None and 400 <= error.code < 500 and error.code not in _TRANSIENT_STATUS
    return isinstance(error, _PERMANENT_ERRORS)


def _is_permanent_reason(reason: str | None, message: str) -> bool:
    """Whether a retry would fail the same way after an error of a Google API with this reason and message."""
    return reason in _PERMANENT_REASONS and not any(text in message.lower() for text in _CONCURRENT_DML)
