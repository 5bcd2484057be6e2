"""Waits for conditions of running processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

POLL_INTERVAL_S = 0.25
TIMEOUT_S = 240.0


def wait_for(
    condition: Callable[[], Any],
    what: str,
    timeout_s: float = TIMEOUT_S,
    *,
    poll_interval_s: float = POLL_INTERVAL_S,
) -> Any:
    """Call `condition` until it returns something true, and return that.

    Raises TimeoutError after `timeout_s`. `what`: what is waited for, as a statement for the error's message.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if found := condition():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not reached within {timeout_s:.0f} s: {what}")
        time.sleep(poll_interval_s)
