"""When a reader runs its queries if answers are slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from soak.readers import reader_process
from soak.readers.expected_answers import ObservedAnswer, ReaderQuery
from soak.readers.observation import Observation

INTERVAL_S = 2.0
FIRST_ANSWER_S = 30.0  # how long the first answer takes


class Clock:
    """Replaces the module `time`, and the event that stops the reader after `queries` queries."""

    def __init__(self, queries: int) -> None:
        self.now = 0.0
        self.asked_at: list[float] = []
        self._queries = queries

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return len(self.asked_at) == self._queries

    def answer(self, sql: str) -> list[Any]:
        self.asked_at.append(self.now)
        self.now += FIRST_ANSWER_S if len(self.asked_at) == 1 else 0.0
        return []


def test_a_reader_catches_up_on_queries_that_were_due_during_a_slow_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(queries=20)
    monkeypatch.setattr(reader_process, "time", clock)
    reader = reader_process.Reader(SimpleNamespace(query_and_wait=clock.answer), "t", INTERVAL_S, 0.0)
    monkeypatch.setattr(reader, "_stopping", clock)
    reader.run()
    assert clock.asked_at == [0.0, *[FIRST_ANSWER_S] * 15, 32.0, 34.0, 36.0, 38.0]
    assert [answer.error for answer in reader.observed] == [""] * 20


def test_readers_that_were_slower_than_asked_for_are_a_problem() -> None:
    answer = ObservedAnswer(ReaderQuery.TOTALS, 0, 1, ((1, 1),))
    assert Observation([[answer] * 60, [answer] * 39], 2, target_rate=50).rate_problems() == []
    (problem,) = Observation([[answer] * 60, [answer] * 38], 2, target_rate=50).rate_problems()
    assert problem.startswith("49.0 queries per second, expected 50")
