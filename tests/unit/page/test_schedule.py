"""Expected arrivals of the day, and which of them came."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dedup_clone.page.schedule import due_today, seen_today, today
from dedup_clone.state.index import ExpectedTimes, Index
from tests.unit.page.indexes import arrival, empty

BERLIN = ExpectedTimes(("06:00", "18:00"), "Europe/Berlin", 30)


def feed(*arrived_at: datetime, expected: ExpectedTimes | None = BERLIN) -> Index:
    arrivals = tuple(arrival(number, at) for number, at in enumerate(arrived_at, 1))
    return replace(empty(), expected=expected, arrivals=arrivals)


def test_each_expected_time_is_met_by_the_delivery_nearest_to_it() -> None:
    now = datetime(2026, 11, 21, 17, 40, tzinfo=UTC)  # 18:40 in Berlin
    found = due_today(feed(datetime(2026, 11, 21, 5, 20, tzinfo=UTC)), now)
    assert [(f"{d.at:%H:%M}", d.met, d.is_overdue) for d in found] == [("06:00", True, False), ("18:00", False, True)]


def test_nothing_is_overdue_within_its_grace() -> None:
    now = datetime(2026, 11, 21, 17, 29, tzinfo=UTC)
    assert [d.is_overdue for d in due_today(feed(), now)] == [True, False]


def test_the_day_is_the_day_of_the_feeds_zone() -> None:
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)  # already the 21st in Berlin
    assert today(feed(), now).isoformat() == "2026-11-21"
    assert today(feed(expected=None), now).isoformat() == "2026-11-20"
    yesterday, early = now - timedelta(hours=2), now - timedelta(minutes=5)
    assert [a.arrived_at for a in seen_today(feed(yesterday, early), now)] == [early]


def test_the_day_on_which_clocks_change_has_all_its_arrivals() -> None:
    now = datetime(2026, 10, 25, 22, 0, tzinfo=UTC)
    came = datetime(2026, 10, 25, 5, 1, tzinfo=UTC), datetime(2026, 10, 25, 17, 1, tzinfo=UTC)
    assert [d.met for d in due_today(feed(*came), now)] == [True, True]


def test_a_feed_without_expected_times_waits_for_nobody() -> None:
    assert due_today(feed(expected=None), datetime(2026, 11, 21, tzinfo=UTC)) == []
