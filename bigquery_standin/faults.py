"""Injects faults: a chosen request or job fails, or a job takes longer or stays queued."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from bigquery_standin.bigquery_errors import Invalid

REQUEST_KEYS, JOB_KEYS = {"method", "path"}, {"job_type", "job_id"}
POLL_INTERVAL_S = 0.02


@dataclass(frozen=True, eq=False)
class Fault:
    """One fault. It applies to `times` matching requests or jobs, from the `nth` match on, counted from 1.

    `match`: regular expressions of the values that a request (REQUEST_KEYS) or a job (JOB_KEYS) must have. `effect`:
    error: it fails with `reason` and `message`, and a request with `status`; delay: the job sleeps `seconds` while it
    is RUNNING; queue: the job stays PENDING for `seconds` (None: until the faults are cleared).
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    match: Mapping[str, re.Pattern[str]]
    effect: Literal["error", "delay", "queue"]
    nth: int = 1
    times: int = 1
    seconds: float | None = None
    status: int = 503
    reason: str = "backendError"
    message: str = "Fault on purpose"

    @property
    def is_about_jobs(self) -> bool:
        return self.match.keys() <= JOB_KEYS

    def matches(self, values: Mapping[str, str]) -> bool:
        pairs = ((expected.pattern, values.get(key)) for key, expected in self.match.items())
        return all(found is not None and re.search(pattern, found, re.IGNORECASE) for pattern, found in pairs)


_FAULT = TypeAdapter(Fault)


def parse_fault(body: Any) -> Fault:
    """The fault that the JSON object describes. Raises Invalid for a wrong key, match, effect or number."""
    try:
        fault = _FAULT.validate_python(body)
    except ValidationError as error:
        raise Invalid(f"Fault is wrong: {error}") from error
    if not fault.match or not (fault.is_about_jobs or fault.match.keys() <= REQUEST_KEYS):
        raise Invalid(
            f"Fault's match is [{body['match']}], expected [{', '.join(sorted(REQUEST_KEYS))}] for requests or "
            f"[{', '.join(sorted(JOB_KEYS))}] for jobs."
        )
    if fault.effect != "error" and not fault.is_about_jobs:
        raise Invalid(f"Fault's effect is [{fault.effect}], expected [error] for a request.")
    if fault.effect == "delay" and fault.seconds is None:
        raise Invalid("Fault's effect [delay] needs [seconds].")
    return fault


class FaultRegistry:
    """The faults that are active now. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._match_counts: dict[Fault, int] = {}

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._match_counts[fault] = 0

    def clear(self) -> None:
        with self._lock:
            self._match_counts.clear()

    def match(self, **values: str) -> Fault | None:
        """The fault that applies to a request or job with these values, or None.

        Faults are tried in the order of their creation until one applies. The request counts as a match, for `nth` and
        `times`, of each fault that was tried and that it matches.
        """
        with self._lock:
            for fault in self._match_counts:
                if not fault.matches(values):
                    continue
                self._match_counts[fault] += 1
                if fault.nth <= self._match_counts[fault] < fault.nth + fault.times:
                    return fault
        return None

    def wait_in_queue(self, fault: Fault, stop: threading.Event) -> None:
        """Wait until the fault's seconds have passed, the faults are cleared, or `stop` is set."""
        deadline = math.inf if fault.seconds is None else time.monotonic() + fault.seconds
        while fault in self._match_counts and time.monotonic() < deadline and not stop.wait(POLL_INTERVAL_S):
            pass
