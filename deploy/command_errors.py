"""Runs a command of this package, and prints its errors with the next step, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dedup_clone.contract.errors import DedupCloneError


def run_command_line(name: str, body: Callable[[], int]) -> int:
    """Run `body`, which is the command `name`, and return its exit status.

    If `body` raises an error of this project or of Google's libraries, or is interrupted, this prints the reason to
    stderr and returns 1.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        return body()
    except DedupCloneError as error:
        reason = str(error)
    except GoogleAuthError as error:
        reason = f"{error}\nRun `gcloud auth application-default login`."
    except GoogleAPIError as error:
        reason = f"{error}\n`make doctor` says what is missing, and how to fix it."
    except KeyboardInterrupt:
        reason = "interrupted."
    print(f"{name}: {reason}", file=sys.stderr)
    return 1
