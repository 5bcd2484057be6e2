"""Runs a command of this package, and prints its errors with the next step, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dedup_clone.contract.errors import DedupCloneError


def run_command_line(name: str, body: Callable[[], int]) -> int:
    """Run `body`, which is the command `name`, and return its exit status.

    If `body` raises an error of this project or of Google's libraries, cannot reach Google's APIs, or is interrupted,
    this prints the reason to stderr and returns 1.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        return body()
    except DedupCloneError as error:
        reason = str(error)
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        reason = f"{error}\n{_next_step(error)}"
    except KeyboardInterrupt:
        reason = "interrupted."
    print(f"{name}: {reason}", file=sys.stderr)
    return 1


def passes_by_itself(error: Exception) -> bool:
    """Whether Google was not reached, or is busy, so that the same request may succeed later."""
    return _is_unreachable(error) or _is_busy(error)


def _is_unreachable(error: Exception) -> bool:
    from google.auth.exceptions import TransportError
    from requests.exceptions import RequestException

    cause: BaseException | None = error
    while cause is not None:  # Google's libraries wrap the error of a failed connection
        if isinstance(cause, (RequestException, TransportError)):
            return True
        cause = cause.__cause__
    return False


def _is_busy(error: Exception) -> bool:
    from google.api_core.exceptions import RetryError, ServerError, TooManyRequests

    return isinstance(error, (RetryError, ServerError, TooManyRequests))


def _next_step(error: Exception) -> str:
    from google.auth.exceptions import GoogleAuthError

    if _is_unreachable(error):
        return "Google's APIs were not reached: check the network and its proxy, then run the command again."
    if _is_busy(error):
        return "Google is busy or has an error of its own: run the command again in some minutes."
    if isinstance(error, GoogleAuthError):
        return "Run `gcloud auth application-default login`."
    return "`make doctor` says what is missing, and how to fix it."
