"""How the commands of this package fail: one line that names what and the next step, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dedup_clone.contract.errors import DedupCloneError


def run_command_line(name: str, body: Callable[[], int]) -> int:
    """The exit status of `body`; 1, and the reason on standard error, when it fails."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        return body()
    except DedupCloneError as error:
        reason = str(error)
    except GoogleAuthError as error:
        reason = f"{error}\nRun `gcloud auth application-default login`."
    except GoogleAPIError as error:
        reason = f"{error}\n`make doctor` says what is missing, and the command that mends it."
    except KeyboardInterrupt:
        reason = "interrupted."
    print(f"{name}: {reason}", file=sys.stderr)
    return 1
