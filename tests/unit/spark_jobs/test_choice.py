"""Which plan a date takes."""

from __future__ import annotations

from datetime import date

import pytest

from dedup_clone.contract.request import Plan
from dedup_spark.choice import choose

BOTH, NEW, OLD = date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)


def test_auto_adopts_delivered_dates_rewrites_where_it_cannot_and_carries_the_others() -> None:
    choices = choose(Plan.AUTO, {BOTH, NEW}, {BOTH, OLD}, {NEW: "file [f] holds [2] dates"})
    assert {day: choice.plan for day, choice in choices.items()} == {BOTH: "adopt", NEW: "rewrite", OLD: "carried"}
    assert choices[NEW].reason == "not adopted: file [f] holds [2] dates"
    assert list(choices) == sorted(choices)


@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.REWRITE])
def test_window_and_rewrite_write_every_date_anew(plan: Plan) -> None:
    choices = choose(plan, {BOTH, NEW}, {BOTH, OLD}, {})
    assert {day: choice.plan for day, choice in choices.items()} == dict.fromkeys((BOTH, NEW, OLD), plan)


@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.REWRITE])
def test_where_dates_are_asked_for_no_other_is_written_anew(plan: Plan) -> None:
    choices = choose(plan, {BOTH}, {BOTH, OLD}, {}, asked={BOTH})
    assert {day: choice.plan for day, choice in choices.items()} == {BOTH: plan, OLD: "carried"}


def test_antijoin_that_was_asked_for_says_so() -> None:
    assert choose(Plan.ANTIJOIN, {BOTH}, {BOTH}, {})[BOTH].reason == "asked for"
    assert "no row of this date" in choose(Plan.ANTIJOIN, {NEW}, {BOTH}, {})[NEW].reason
