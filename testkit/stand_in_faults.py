"""Adds faults to the BigQuery stand-in: chosen jobs or requests are delayed, stay queued, fail or get no reply.

docs/stand-in.md describes the JSON of a fault.
"""

from __future__ import annotations

from typing import Any

from devstack.http_calls import call
from testkit.errors import HarnessError

_PATH = "/_standin/faults"


def add_fault(stand_in_url: str, fault: dict[str, Any]) -> None:
    """Add a fault. Raises HarnessError if the stand-in does not accept it, Unreachable if it does not run.

    The fault's `match` selects jobs (by `job_id`, `job_type`) or requests (by `method`, `path`), and its `effect` is
    what happens to them.
    """
    answer = call("POST", f"{stand_in_url}{_PATH}", body=fault)
    if not answer.ok:
        raise HarnessError(f"The stand-in does not accept the fault [{fault}]: {answer.text[:300]}")


def clear_faults(stand_in_url: str) -> None:
    """Remove all faults. Raises Unreachable if the stand-in does not run."""
    call("DELETE", f"{stand_in_url}{_PATH}")
