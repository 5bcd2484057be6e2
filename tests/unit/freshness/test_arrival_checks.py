"""Expected arrivals are moments: the change of clocks makes nobody overdue and hides nobody."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from dedup_clone.freshness.arrival_checks import expected_times, overdue_times, to_utc
from dedup_clone.settings.freshness_settings import ExpectedArrivals

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "clock", "expected"),
    [
        ("2026-01-10", "02:30", "2026-01-10 01:30"),  # winter
        ("2026-07-10", "02:30", "2026-07-10 00:30"),  # summer
        ("2026-03-29", "02:30", "2026-03-29 01:30"),  # put forward: 02:30 is not there, an hour later counts
        ("2026-03-29", "01:59", "2026-03-29 00:59"),
        ("2026-03-29", "03:00", "2026-03-29 01:00"),
        ("2026-10-25", "02:30", "2026-10-25 01:30"),  # put back: 02:30 is there twice, the second counts
        ("2026-10-25", "03:00", "2026-10-25 02:00"),
        ("2026-10-25", "01:30", "2026-10-24 23:30"),
    ],
)
def test_local_times_in_utc(day: str, clock: str, expected: str) -> None:
    assert to_utc(date.fromisoformat(day), time.fromisoformat(clock), BERLIN) == utc(expected)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
def test_every_day_of_a_year_has_each_time_once(zone: str) -> None:
    expected = ExpectedArrivals(times=("02:15", "10:00", "23:45"), zone=zone)
    found = expected_times(expected, utc("2026-01-01 00:00"), utc("2027-01-01 00:00"))
    assert len(found) == 3 * 365
    assert found == sorted(set(found))


SIX = ExpectedArrivals(times=("02:00", "06:00", "10:00", "14:00", "18:00", "22:00"), zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("arrived", "now", "expected"),
    [
        # summer, +2: expected at 00, 04, 08, 12, 16, 20 UTC; half an hour is tolerated
        (["2026-06-10 08:05"], "2026-06-10 12:29", []),
        (["2026-06-10 08:05"], "2026-06-10 12:30", ["2026-06-10 12:00"]),
        (["2026-06-10 08:05"], "2026-06-10 16:31", ["2026-06-10 12:00", "2026-06-10 16:00"]),
        (["2026-06-10 08:05", "2026-06-10 12:31"], "2026-06-10 13:00", []),  # it came late
        (["2026-06-10 08:05", "2026-06-10 10:01"], "2026-06-10 13:00", []),  # it came early
        (["2026-06-10 09:59"], "2026-06-10 13:00", ["2026-06-10 12:00"]),  # that was the one before, late
        (["2026-06-10 16:20"], "2026-06-10 17:00", []),  # after a gap the newest counts
        ([], "2026-06-10 13:00", ["2026-06-10 12:00"]),
        # the night in which 02:00 is there twice: due at 01:00 UTC, the second time
        (["2026-10-24 20:05"], "2026-10-25 01:29", []),
        (["2026-10-24 20:05"], "2026-10-25 01:30", ["2026-10-25 01:00"]),
        # the night in which 02:00 is not there: due at 01:00 UTC
        (["2026-03-28 21:05"], "2026-03-29 01:29", []),
        (["2026-03-28 21:05"], "2026-03-29 01:31", ["2026-03-29 01:00"]),
    ],
)
def test_overdue_times(arrived: list[str], now: str, expected: list[str]) -> None:
    assert overdue_times(SIX, tuple(map(utc, arrived)), utc(now)) == [utc(time) for time in expected]


def test_a_feed_that_is_silent_for_long_is_not_counted_back_for_ever() -> None:
    missed = overdue_times(SIX, (utc("2026-01-01 00:00"),), utc("2026-06-10 13:00"))
    assert len(missed) < 6 * 9
    assert missed[-1] - missed[0] < timedelta(days=8)
