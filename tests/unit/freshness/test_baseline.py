"""How long publishes usually take, what remains of one, and which phases exceed their budget."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from dedup_clone.freshness.baseline import (
    BUDGET_MINUTES_PER_HOUR,
    compute_baseline,
    describe_over_budget,
    remaining_time,
)
from dedup_clone.freshness.evaluation import find_incidents
from dedup_clone.state.current import Intent, IntentKind
from tests.shared.freshness_states import NOW, current, feed_state, intent, minutes, record, waits

HOUR = Path(__file__).parents[3] / "docs" / "hour.md"
IN_TIME = {"until_lease": 60.0, "dedup": 1000.0, "load": 1000.0, "swap": 5.0}


def test_medians_of_the_last_publishes() -> None:
    slow = record(lag_s=99999.0)
    usual = compute_baseline((record(1), record(2), record(3), slow), minutes(60))
    assert (usual.lease_to_swap, usual.after_dedup) == (minutes(25), minutes(5))


def test_only_the_newest_twenty_count() -> None:
    old = [record(n, lag_s=99999.0) for n in range(30)]
    assert compute_baseline((*old, *(record(n) for n in range(30, 50))), minutes(60)).lease_to_swap == minutes(25)


@pytest.mark.parametrize("useless", [{"lag_s": None}, {"phases": {}}])
def test_half_the_sla_while_too_few_are_known(useless: dict[str, object]) -> None:
    assert compute_baseline((record(1), record(2), record(3, **useless)), minutes(60)).lease_to_swap == minutes(30)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, minutes(25)),
        (intent(minutes(0)), minutes(25)),
        (intent(minutes(10)), minutes(15)),
        (intent(minutes(24)), minutes(5)),
        (intent(minutes(90)), minutes(5)),
        (intent(minutes(10), "f-8-x-load-1"), minutes(5)),
        (intent(minutes(10), "f-8-x-load_20260131-1"), minutes(5)),
        (intent(minutes(10), "dedup_clone-load-8x-export_20260131-1"), minutes(15)),
        (intent(minutes(1), kind=IntentKind.ROLLBACK), minutes(25)),
    ],
)
def test_remaining(held: Intent | None, expected: timedelta) -> None:
    assert remaining_time(NOW, feed_state(current=current(held))) == expected


def test_no_phase_is_named_while_each_is_within_its_budget() -> None:
    assert describe_over_budget(tuple(record(n, phases=IN_TIME) for n in range(3)), minutes(60)) == ""


def test_slow_phases_are_named_with_their_budget() -> None:
    slow = {**IN_TIME, "load": 31 * 60.0, "swap": 200.0}
    sentence = describe_over_budget(tuple(record(n, phases=slow) for n in range(3)), minutes(60))
    assert "load takes 31 min of 25 min" in sentence
    assert "swap takes 3 min of 60 s" in sentence
    assert "dedup" not in sentence


def test_the_budget_is_a_share_of_the_sla() -> None:
    history = tuple(record(n, phases={"load": 20 * 60.0}) for n in range(3))
    assert describe_over_budget(history, minutes(60)) == ""
    assert "load takes 20 min of 12 min" in describe_over_budget(history, minutes(30))


def test_one_slow_publish_is_not_usual() -> None:
    history = (*(record(n, phases=IN_TIME) for n in range(4)), record(5, phases={**IN_TIME, "load": 9999.0}))
    assert describe_over_budget(history, minutes(60)) == ""


def test_too_few_publishes_are_no_baseline() -> None:
    assert describe_over_budget((record(1, phases={"load": 9999.0}),), minutes(60)) == ""


def test_the_warning_names_them() -> None:
    history = tuple(record(n, phases={**IN_TIME, "load": 31 * 60.0}) for n in range(3))
    (warning,) = [
        i for i in find_incidents(NOW, feed_state(waiting=(waits(minutes(50)),), history=history)) if "risk" in i.kind
    ]
    assert "load takes 31 min of 25 min" in warning.what


def test_the_docs_have_the_same_minutes() -> None:
    for phase, share in BUDGET_MINUTES_PER_HOUR.items():
        assert re.search(rf"^\|[^|]*\| {share} \|.*`{phase}`", HOUR.read_text(), re.MULTILINE), phase
