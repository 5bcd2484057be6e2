"""The state of a feed, judged at the moment of looking."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.page.kinds import Kind, kinds_of
from dedup_clone.page.promise import State, duration, judge
from dedup_clone.state.index import Fate, Index
from tests.unit.page.indexes import NOW, arrival, delivery, empty, fresh, late, make_index, record


def with_waiting(minutes: float) -> Index:
    index = fresh()
    return replace(index, arrivals=(*index.arrivals, arrival(500, NOW - timedelta(minutes=minutes), Fate.WAITING)))


def test_a_feed_whose_readers_see_the_newest_snapshot_is_fresh() -> None:
    found = judge(fresh(), NOW)
    assert (found.state, found.reasons) == (State.FRESH, ())
    assert found.headline == "Readers see snapshot 2120, the newest one."


@pytest.mark.parametrize(
    ("minutes", "state"),
    [(5, State.FRESH), (29.9, State.FRESH), (30.1, State.AT_RISK), (60, State.AT_RISK), (60.1, State.LATE)],
)
def test_a_waiting_delivery_puts_the_promise_at_risk_and_then_breaks_it(minutes: float, state: State) -> None:
    assert judge(with_waiting(minutes), NOW).state is state


def test_a_failed_attempt_puts_the_promise_at_risk_at_once_and_says_why() -> None:
    index = with_waiting(1)
    failed = replace(record(500, NOW, 0), deliveries=(delivery(500),), reason="check [new_share] failed")
    found = judge(replace(index, failures=(failed,)), NOW)
    assert found.state is State.AT_RISK
    assert found.reasons[0].endswith("Its last attempt failed: check [new_share] failed.")


def test_the_longest_wait_is_named_first() -> None:
    found = judge(late(), NOW)
    assert found.state is State.LATE
    assert found.reasons[0].startswith("Snapshot 2122 has waited 1 h 12 min of 60 min. Its last attempt failed: ")


def test_a_broken_promise_of_the_last_publish_stays_visible() -> None:
    index = fresh()
    last = replace(index.records[-1], lag_s=75 * 60.0)
    found = judge(replace(index, records=(*index.records[:-1], last)), NOW)
    assert (found.state, found.reasons) == (State.AT_RISK, ("The last publish broke the promise by 15 min.",))


def test_a_target_that_is_older_than_its_limit_is_late() -> None:
    found = judge(replace(fresh(), max_age_minutes=60), NOW)
    assert found.state is State.LATE
    assert found.reasons == ("What readers see arrived 1 h 18 min ago; promised are 60 min at most.",)


def test_an_arrival_that_is_overdue_puts_the_promise_at_risk() -> None:
    index = make_index(now=NOW - timedelta(hours=4))
    found = judge(index, NOW)
    assert found.state is State.AT_RISK
    assert found.reasons == ("The snapshot expected at 14:06 has not arrived, 1 h 24 min later.",)


def test_a_rollback_is_told_in_the_headline() -> None:
    index = fresh()
    back = replace(index.records[-1], restores=118, lag_s=None)
    found = judge(replace(index, records=(*index.records[:-1], back)), NOW)
    assert found.headline == "Readers see snapshot 2120 again, by a rollback to generation 118."


def test_a_table_that_was_taken_over_is_told_in_the_headline_and_breaks_no_promise() -> None:
    index = fresh()
    taken = replace(index.records[-1], parent=None, deliveries=(), lag_s=None)
    found = judge(replace(index, records=(taken,)), NOW)
    assert found.headline == "Readers see the table that was taken over, up to update id 2120."
    assert kinds_of(replace(index, records=(taken,))) == {taken.generation: Kind.BOOTSTRAP}


def test_before_the_first_publish_there_is_no_state_but_a_wait_still_counts() -> None:
    assert judge(empty(), NOW).state is State.EMPTY
    waits = replace(empty(), arrivals=(arrival(1, NOW - timedelta(minutes=61), Fate.WAITING),))
    found = judge(waits, NOW)
    assert (found.state, found.headline) == (State.LATE, "Nothing is published yet; 1 waits.")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (26.4, "26 s"), (89, "89 s"), (720, "12 min"), (3570, "1 h 00 min"), (200_000, "2 d 7 h")],
)
def test_durations_are_said_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
