"""Injects faults: a chosen request or job fails, is delayed, stays queued, loses its response or exceeds a quota."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bigquery_standin.bigquery_errors import Invalid

# error: answers with the fault's status. delay: answers `seconds` later. lost_reply: does what the request asks, and
# closes the connection without an answer. quota: answers that a quota is exceeded.
REQUEST_EFFECTS = ("error", "delay", "lost_reply", "quota")
# error, quota: the job fails. delay: the job sleeps `seconds` while it is RUNNING. queue: the job stays PENDING for
# `seconds`, or until the faults are cleared.
JOB_EFFECTS = ("error", "delay", "quota", "queue")
REQUEST_KEYS, JOB_KEYS = {"method", "path"}, {"job_type", "job_id"}
_PATTERN_KEYS = ("path", "job_id")  # their values are regular expressions


@dataclass(frozen=True)
class Fault:
    """One fault. It applies to `times` matching requests or jobs, from the `nth` match on, counted from 1.

    `match`: the values that a request (REQUEST_KEYS) or a job (JOB_KEYS) must have; `path` and `job_id` are regular
    expressions. `effect`: one of REQUEST_EFFECTS or JOB_EFFECTS. `seconds`: for effects `delay` and `queue`; None: a
    queued job waits until the faults are cleared. `status`, `reason`, `message`: those of the error; effect `quota`
    uses only the message, and the error of a job has no status.
    """

    id: str
    match: Mapping[str, str]
    effect: str
    nth: int = 1
    times: int = 1
    seconds: float | None = None
    status: int = 503
    reason: str = "backendError"
    message: str = "Fault on purpose"

    @property
    def is_about_jobs(self) -> bool:
        return bool(JOB_KEYS & set(self.match))


def parse_fault(body: Mapping[str, Any]) -> Fault:
    """The fault that the JSON object describes. Raises Invalid for a wrong key, match, effect or number."""
    allowed_keys = {"match", "effect", "nth", "times", "seconds", "status", "reason", "message"}
    if unknown := sorted(set(body) - allowed_keys):
        raise Invalid(f"Fault has unknown keys [{', '.join(unknown)}], known are [{', '.join(sorted(allowed_keys))}].")
    match, effect = body.get("match"), body.get("effect")
    if not isinstance(match, dict) or not match or not (set(match) <= REQUEST_KEYS or set(match) <= JOB_KEYS):
        raise Invalid(
            f"Fault's match is [{match}], expected an object with [{', '.join(sorted(REQUEST_KEYS))}] for requests or "
            f"[{', '.join(sorted(JOB_KEYS))}] for jobs."
        )
    for key, expected in match.items():
        _check_expected(key, expected)
    allowed = JOB_EFFECTS if set(match) <= JOB_KEYS else REQUEST_EFFECTS
    if effect not in allowed:
        raise Invalid(f"Fault's effect is [{effect}], expected one of [{', '.join(allowed)}] for this match.")
    for key in sorted({"nth", "times", "seconds", "status"} & set(body)):
        value, kinds = body[key], (int, float, type(None)) if key == "seconds" else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise Invalid(f"Fault's {key} is [{value}], expected a number.")
    if effect == "delay" and body.get("seconds") is None:
        raise Invalid("Fault's effect [delay] needs [seconds].")
    return Fault(id=uuid.uuid4().hex[:8], **dict(body))


def _check_expected(key: str, expected: object) -> None:
    """Raises Invalid for a value of `match` that is no text, or no regular expression where it must be one."""
    try:
        if isinstance(expected, str):
            re.compile(expected if key in _PATTERN_KEYS else "")
            return
    except re.error as error:
        raise Invalid(f"Fault's {key} is [{expected}], expected a regular expression: {error}.") from error
    raise Invalid(f"Fault's {key} is [{expected}], expected text.")


class FaultRegistry:
    """The faults that are active now. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._faults: dict[str, Fault] = {}
        self._match_counts: dict[str, int] = {}

    def add(self, fault: Fault) -> None:
        with self._changed:
            self._faults[fault.id] = fault
            self._match_counts[fault.id] = 0

    def clear(self) -> None:
        with self._changed:
            self._faults.clear()
            self._changed.notify_all()

    def match_request(self, method: str, path: str) -> Fault | None:
        """The fault that applies to the request, or None.

        Faults are tried in the order of their creation until one applies. The request counts as a match, for `nth` and
        `times`, of each fault that was tried and that it matches.
        """
        return self._match({"method": method, "path": path}, jobs=False)

    def match_job(self, job_type: str, job_id: str) -> Fault | None:
        """The fault that applies to the job, or None. The job counts as a match as in `match_request`."""
        return self._match({"job_type": job_type, "job_id": job_id}, jobs=True)

    def wait_in_queue(self, fault: Fault, stop: threading.Event) -> None:
        """Wait until the fault's seconds have passed, the faults are cleared, or `stop` is set.

        Whoever sets `stop` must call `wake_waiting` afterwards.
        """
        with self._changed:
            self._changed.wait_for(lambda: stop.is_set() or fault.id not in self._faults, fault.seconds)

    def wake_waiting(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _match(self, values: Mapping[str, str], jobs: bool) -> Fault | None:
        with self._changed:
            for fault in self._faults.values():
                if fault.is_about_jobs != jobs or not _matches(fault.match, values):
                    continue
                self._match_counts[fault.id] += 1
                if fault.nth <= self._match_counts[fault.id] < fault.nth + fault.times:
                    return fault
        return None


def _matches(match: Mapping[str, str], values: Mapping[str, str]) -> bool:
    for key, expected in match.items():
        if key in _PATTERN_KEYS:
            if not re.search(expected, values[key]):
                return False
        elif expected.lower() != values[key].lower():
            return False
    return True
