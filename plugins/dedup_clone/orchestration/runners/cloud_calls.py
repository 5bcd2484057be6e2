"""What calls to Google's APIs share: retry options, names of states, and errors that say the next step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dedup_clone.contract.errors import ConfigurationError, SparkUnavailable
from dedup_clone.orchestration.runners.error_hints import ErrorHints

_CALL_TIMEOUT_S = 60.0
_RETRY_S = 30.0  # counted from the first try; no further try is made after this time


def call_options() -> dict[str, Any]:
    """The arguments `retry` and `timeout` of a call that is safe to repeat.

    The clients' own defaults range from no retry to retries that occupy a worker for a quarter of an hour.
    """
    from google.api_core.exceptions import ServiceUnavailable
    from google.api_core.retry import Retry, if_exception_type

    predicate = if_exception_type(ServiceUnavailable, *_connection_errors())
    retry = Retry(predicate=predicate, initial=0.1, maximum=5.0, timeout=_RETRY_S)
    return {"retry": retry, "timeout": _CALL_TIMEOUT_S}


def name_of(state: Any) -> str:
    """The name of a state in Dataproc's answer; its number as text if the installed library does not know the state."""
    return str(getattr(state, "name", state))


def _connection_errors() -> tuple[type[Exception], ...]:
    """Errors of BigQuery's client when it gets no answer. Dataproc's client raises ServiceUnavailable instead."""
    from google.auth.exceptions import TransportError
    from requests.exceptions import ConnectionError, Timeout

    return ConnectionError, Timeout, TransportError


@contextmanager
def translate_errors(
    hints: ErrorHints, resource: str, *, ignored: type[Exception] | tuple[type[Exception], ...]
) -> Iterator[None]:
    """Translates an error of an API call about `resource` into one that ends with a hint for the operator.

    Raises ConfigurationError if a retry cannot help, SparkUnavailable if it can. An error of an `ignored` type only
    ends the `with` block.
    """
    from google.api_core.exceptions import (
        BadRequest,
        FailedPrecondition,
        Forbidden,
        GoogleAPICallError,
        NotFound,
        RetryError,
    )

    failures: tuple[type[Exception], ...] = (GoogleAPICallError, RetryError, *_connection_errors())
    try:
        yield
    except ignored:
        return
    except failures as error:
        cause = error.cause if isinstance(error, RetryError) else error
        message = getattr(cause, "message", None) or str(cause)
        reasons = " ".join(str(e.get("reason", "")) for e in getattr(cause, "errors", ()) if isinstance(e, dict))
        hint = hints.for_message(f"{type(cause).__name__} {message} {reasons}")
        if hint is None and isinstance(cause, Forbidden):
            hint = hints.permission_denied()
        if hint is None and isinstance(cause, (BadRequest, NotFound)) and not isinstance(cause, FailedPrecondition):
            hint = hints.invalid_request()
        if hint is None:
            hint = hints.unknown()
        error_type = ConfigurationError if hint.permanent else SparkUnavailable
        raise error_type(f"A call for {resource} failed: {type(cause).__name__}: {message} {hint.text}") from error
