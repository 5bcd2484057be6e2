"""Which plan a date takes."""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.request import Plan
from dedup_spark.choice import choose

BOTH, NEW, OLD = date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)


def test_auto_adopts_delivered_dates_joins_where_it_cannot_and_carries_the_others() -> None:
    choices = choose(Plan.AUTO, {BOTH, NEW}, {BOTH, OLD}, {NEW: "file [f] holds [2] dates"})
    assert {day: choice.plan for day, choice in choices.items()} == {BOTH: "adopt", NEW: "antijoin", OLD: "carried"}
    assert choices[NEW].reason == "not adopted: file [f] holds [2] dates"
    assert list(choices) == sorted(choices)


def test_window_writes_every_date_anew() -> None:
    choices = choose(Plan.WINDOW, {BOTH, NEW}, {BOTH, OLD}, {})
    assert {choice.plan for choice in choices.values()} == {"window"}


def test_antijoin_that_was_asked_for_says_so() -> None:
    assert choose(Plan.ANTIJOIN, {BOTH}, {BOTH}, {})[BOTH].reason == "asked for"
    assert "no row of this date" in choose(Plan.ANTIJOIN, {NEW}, {BOTH}, {})[NEW].reason
