"""How long what remains usually takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.freshness.usual import usual, usual_remaining
from dedup_clone.state.current import Intent, IntentKind
from tests.unit.freshness.facts import NOW, current, facts, intent, minutes, record


def test_medians_of_the_last_publishes() -> None:
    slow = record(lag_s=99999.0)
    typical = usual((record(1), record(2), record(3), slow), minutes(60))
    assert (typical.work, typical.after_dedup) == (minutes(25), minutes(5))


def test_only_the_newest_twenty_count() -> None:
    old = [record(n, lag_s=99999.0) for n in range(30)]
    assert usual((*old, *(record(n) for n in range(30, 50))), minutes(60)).work == minutes(25)


@pytest.mark.parametrize("useless", [{"lag_s": None}, {"phases": {}}])
def test_half_the_promise_while_too_few_are_known(useless: dict[str, object]) -> None:
    assert usual((record(1), record(2), record(3, **useless)), minutes(60)).work == minutes(30)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, minutes(25)),
        (intent(minutes(0)), minutes(25)),
        (intent(minutes(10)), minutes(15)),
        (intent(minutes(24)), minutes(5)),
        (intent(minutes(90)), minutes(5)),
        (intent(minutes(21), "f-8-x-load-1"), minutes(5)),
        (intent(minutes(1), kind=IntentKind.ROLLBACK), minutes(25)),
    ],
)
def test_remaining(held: Intent | None, expected: timedelta) -> None:
    assert usual_remaining(NOW, facts(current=current(held))) == expected
