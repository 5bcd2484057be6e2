"""Defines faults of the fake services: which call fails, and how. Calls are counted for each method, from 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

Answer = TypeVar("Answer")
KILLED = "the worker was killed"


@dataclass(frozen=True)
class Fault:
    """The call with this number of `method` fails with `code`, the name of a gRPC status.

    `accepted`: whether the service carries the call out before it fails. `kills`: whether the caller is killed instead
    of getting the error.
    """

    method: str
    number: int
    code: str = "UNAVAILABLE"
    accepted: bool = False
    kills: bool = False
    message: str = "injected"

    def __str__(self) -> str:
        what = "killed" if self.kills else self.code
        return f"{self.method}-{self.number}-{what}-{'after' if self.accepted else 'before'}"


class Refused(Exception):
    """The service refuses the call. `code`: the name of a gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Faults:
    """The planned faults, which `serve` applies to every call of a service. `calls`: method and number of each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self._counts: Counter[str] = Counter()
        self._planned: dict[tuple[str, int], Fault] = {}
        self._always: dict[str, Fault] = {}
        self._lock = Lock()

    def plan(self, faults: Iterable[Fault]) -> None:
        """Let the calls of these faults fail, instead of those planned before."""
        self._planned = {(f.method, f.number): f for f in faults}

    def always(self, fault: Fault) -> None:
        """Let every call of the fault's method fail, whatever its number."""
        self._always[fault.method] = fault

    def clear(self) -> None:
        """Remove all faults."""
        self._planned, self._always = {}, {}

    def serve(self, method: str, answer: Callable[[], Answer]) -> Answer:
        """The result of `answer`, called for one call of `method` at a time. Raises Refused if a fault applies."""
        with self._lock:
            self._counts[method] += 1
            self.calls.append((method, self._counts[method]))
            fault = self._planned.pop((method, self._counts[method]), None) or self._always.get(method)
            if fault is None:
                return answer()
            if fault.accepted:
                with suppress(Refused):
                    answer()
            raise Refused(fault.code, KILLED if fault.kills else fault.message)
