"""Calls to Google's services as the runners make them: briefly retried, errors in words that an operator can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dedup_clone.contract.errors import ConfigurationError, SparkUnavailable
from dedup_clone.orchestration.runners.advice import Adviser

_CALL_S = 60.0
_RETRY_S = 30.0


def briefly() -> dict[str, Any]:
    """Arguments of a call: passing troubles are sat out. Every call of the runners may be made twice.

    Clients' own defaults differ from call to call: none at all, or fifteen minutes in a worker.
    """
    from google.api_core.exceptions import ServiceUnavailable
    from google.api_core.retry import Retry, if_exception_type

    retry = Retry(predicate=if_exception_type(ServiceUnavailable), initial=0.1, maximum=5.0, timeout=_RETRY_S)
    return {"retry": retry, "timeout": _CALL_S}


@contextmanager
def calling(adviser: Adviser, what: str, *harmless: type[Exception]) -> Iterator[None]:
    """Errors of a call about `what` in our words; those in `harmless` end the block and nothing else.

    Raises ConfigurationError where trying again cannot help, SparkUnavailable where it may.
    """
    from google.api_core.exceptions import (
        BadRequest,
        FailedPrecondition,
        Forbidden,
        GoogleAPICallError,
        NotFound,
        RetryError,
    )

    try:
        yield
    except harmless:
        return
    except (GoogleAPICallError, RetryError) as error:
        cause = error.cause if isinstance(error, RetryError) else error
        said = getattr(cause, "message", None) or str(cause)
        reasons = " ".join(str(e.get("reason", "")) for e in getattr(cause, "errors", ()) if isinstance(e, dict))
        advice = adviser.on(f"{type(cause).__name__} {said} {reasons}")
        if advice is None and isinstance(cause, Forbidden):
            advice = adviser.permission()
        if advice is None and isinstance(cause, (BadRequest, NotFound)) and not isinstance(cause, FailedPrecondition):
            advice = adviser.refused()
        if advice is None:
            advice = adviser.passing()
        kind = ConfigurationError if advice.final else SparkUnavailable
        raise kind(f"{what}: {type(cause).__name__}: {said} {advice.text}") from error
