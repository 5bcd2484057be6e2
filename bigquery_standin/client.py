"""Controls a running stand-in: its health, clock, faults and grants. Other packages import this module only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import urllib3

STAND_IN_USER = "user:stand-in@local.invalid"  # who makes a request without a token


class Control:
    """The requests below /_standin/ of the stand-in at `address`: host:port, or its URL.

    All methods raise RuntimeError, with the answer, if the stand-in refuses the request, and ConnectionError if it does
    not answer.
    """

    def __init__(self, address: str) -> None:
        self._root = f"http://{address.removeprefix('http://')}/_standin"

    def write_api(self) -> str:
        """The host:port of the Storage Write API. The stand-in serves requests if it answers."""
        return str(self._call("GET", "health")["write_api"])

    def now(self) -> datetime:
        """The time by the stand-in's clock."""
        return datetime.fromisoformat(self._call("GET", "clock")["now"])

    def advance(self, **time: float) -> None:
        """Advance the clock by these arguments of timedelta. Row changes that are due by then are applied."""
        self._call("POST", "clock", {"advance_seconds": timedelta(**time).total_seconds()})

    def add_fault(self, **fault: Any) -> None:
        """Add a fault. `match` selects jobs (by `job_id`, `job_type`) or requests (by `method`, `path`)."""
        self._call("POST", "faults", fault)

    def clear_faults(self) -> None:
        self._call("DELETE", "faults")

    def grant(self, permission: str, member: str = STAND_IN_USER) -> None:
        self._call("POST", "grants", {"member": member, "permission": permission})

    def clear_grants(self) -> None:
        self._call("DELETE", "grants")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = urllib3.request(method, f"{self._root}/{path}", json=body, timeout=60, retries=False)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"The stand-in does not answer {method} {path}: {error}") from error
        if answer.status >= 400:
            raise RuntimeError(f"The stand-in refuses {method} {path} with [{body}]: {answer.data.decode()}")
        return answer.json() if answer.data else None
