"""Lets the BigQuery stand-in delay, queue or fail chosen jobs and requests. docs/stand-in.md lists a fault's keys."""

from __future__ import annotations

from typing import Any

from devstack.http_calls import call
from testkit.errors import HarnessError

_PATH = "/_standin/faults"


def add_fault(stand_in_url: str, fault: dict[str, Any]) -> None:
    """Add a fault. Raises HarnessError when the stand-in does not accept it.

    `match` chooses jobs (`job_id`, `job_type`) or requests (`method`, `path`); `effect` is what happens to them.
    """
    answer = call("POST", f"{stand_in_url}{_PATH}", body=fault)
    if not answer.ok:
        raise HarnessError(f"The stand-in does not accept the fault [{fault}]: {answer.text[:300]}")


def clear_faults(stand_in_url: str) -> None:
    """Remove all faults. Raises Unreachable when the stand-in does not run."""
    call("DELETE", f"{stand_in_url}{_PATH}")
