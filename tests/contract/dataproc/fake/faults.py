"""Which call goes wrong and how. Counted by method, from 1, as the calls arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

Answer = TypeVar("Answer")
KILLED = "the worker was killed"


class WorkerKilled(BaseException):
    """The process that made the call is gone: nothing in it catches this."""


@dataclass(frozen=True)
class Fault:
    """The `number`th call of `method` fails with `code` (a gRPC status), `accepted` or not before it does.

    With `kills` the caller dies instead of getting an answer.
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
    """The call fails with this gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Faults:
    """Every call of the services goes through `serve`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self._counts: Counter[str] = Counter()
        self._planned: dict[tuple[str, int], Fault] = {}
        self._always: dict[str, Fault] = {}
        self._lock = Lock()

    def plan(self, faults: Iterable[Fault]) -> None:
        self._planned = {(f.method, f.number): f for f in faults}

    def always(self, fault: Fault) -> None:
        """Every call of the fault's method, whatever its number."""
        self._always[fault.method] = fault

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._planned, self._always = {}, {}

    def serve(self, method: str, answer: Callable[[], Answer]) -> Answer:
        """`answer()`, one call at a time, or Refused."""
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
