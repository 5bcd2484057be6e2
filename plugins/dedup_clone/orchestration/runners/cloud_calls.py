"""What calls to Google's APIs share: retry options, and names of states."""

from __future__ import annotations

from typing import Any

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
