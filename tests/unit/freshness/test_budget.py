"""Which phases usually take more than their share of the promise."""

from __future__ import annotations

import re
from pathlib import Path

from dedup_clone.freshness.budget import MINUTES_OF_AN_HOUR, over_budget
from dedup_clone.freshness.judge import judge
from tests.unit.freshness.facts import NOW, facts, minutes, record, waits

HOUR = Path(__file__).parents[3] / "docs" / "hour.md"
IN_TIME = {"until_lease": 60.0, "dedup": 1000.0, "load": 1000.0, "swap": 5.0}


def test_nothing_is_said_while_every_phase_keeps_its_share() -> None:
    assert over_budget(tuple(record(n, phases=IN_TIME) for n in range(3)), minutes(60)) == ""


def test_slow_phases_are_named_with_what_they_may_take() -> None:
    slow = {**IN_TIME, "load": 31 * 60.0, "swap": 200.0}
    said = over_budget(tuple(record(n, phases=slow) for n in range(3)), minutes(60))
    assert "load takes 31 min of 25 min" in said
    assert "swap takes 3 min of 60 s" in said
    assert "dedup" not in said


def test_shares_follow_the_promise() -> None:
    history = tuple(record(n, phases={"load": 20 * 60.0}) for n in range(3))
    assert over_budget(history, minutes(60)) == ""
    assert "load takes 20 min of 12 min" in over_budget(history, minutes(30))


def test_one_slow_publish_is_not_usual() -> None:
    history = (*(record(n, phases=IN_TIME) for n in range(4)), record(5, phases={**IN_TIME, "load": 9999.0}))
    assert over_budget(history, minutes(60)) == ""


def test_too_few_publishes_say_nothing() -> None:
    assert over_budget((record(1, phases={"load": 9999.0}),), minutes(60)) == ""


def test_the_warning_names_them() -> None:
    history = tuple(record(n, phases={**IN_TIME, "load": 31 * 60.0}) for n in range(3))
    (warning,) = [i for i in judge(NOW, facts(waiting=(waits(minutes(50)),), history=history)) if "risk" in i.kind]
    assert "load takes 31 min of 25 min" in warning.what


def test_the_docs_have_the_same_minutes() -> None:
    for phase, share in MINUTES_OF_AN_HOUR.items():
        assert re.search(rf"^\|[^|]*\| {share} \|.*`{phase}`", HOUR.read_text(), re.MULTILINE), phase
