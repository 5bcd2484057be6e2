"""Alerts, metrics, baselines of publishes, and expected arrivals."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from dedup_clone.contract.attempt import Kind
from dedup_clone.freshness.arrival_checks import (
    expected_times,
    overdue_times,
    remaining_time,
    to_utc,
)
from dedup_clone.freshness.evaluation import evaluate
from dedup_clone.orchestration.watchdog.feed_check import feed_metrics
from dedup_clone.settings.feed import ExpectedArrivals
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import LedgerRecord
from tests.shared.freshness_states import BEGAN, NOW, audits, current, feed_state, intent, minutes, record, waits


def test_the_beginning() -> None:
    assert BEGAN.text.splitlines() == [
        "[sales] ALERT: late",
        "What: snapshot 8 <b>is</b> not live.",
        "Since: 2026-06-15 12:00:00 UTC",
        "Readers see: snapshot 7",
        "Next: open the run.",
        "Runbook: https://host/runbook.md#late",
        "Airflow: https://airflow/dags/sales_publish",
    ]


def test_the_end() -> None:
    ended = dataclasses.replace(BEGAN, ended_at=NOW + minutes(90))
    assert ended.title == "[sales] RECOVERED: late"
    assert "Lasted: 2026-06-15 12:00:00 UTC to 2026-06-15 13:30:00 UTC (90 min)" in ended.text
    assert "Next: nothing." in ended.text


def test_metrics_of_a_feed() -> None:
    daily = ExpectedArrivals(times=("11:00",))
    known = feed_state(expected=daily, waiting=(waits(minutes(3)), waits(minutes(2), 9)), arrivals=(NOW - minutes(60),))
    assert feed_metrics(NOW, known, 2) == {
        "deliveries_waiting": 2.0,
        "waiting_seconds": 180.0,
        "sla_seconds": 3600.0,
        "sla_share_used": 0.05,
        "incidents_open": 2.0,
        "arrivals_overdue": 0.0,
        "lag_seconds": 1800.0,
        "age_seconds": 7200.0,
    }


def test_what_is_not_known_is_no_metric() -> None:
    found = feed_metrics(NOW, feed_state(audits=audits(0, 1)), 1)
    assert (found["partitions_unequal"], found["audit_age_seconds"]) == (1.0, 3600.0)
    always = {"deliveries_waiting", "waiting_seconds", "sla_seconds", "sla_share_used", "incidents_open"}
    assert set(feed_metrics(NOW, feed_state(live=None, history=()), 0)) == always
    assert "lag_seconds" not in feed_metrics(NOW, feed_state(live=record(lag_s=None)), 0)


def remaining(*history: LedgerRecord) -> timedelta:
    return remaining_time(NOW, feed_state(history=history))


def test_the_median_of_the_last_publishes_remains() -> None:
    assert remaining(record(1), record(2), record(3), record(lag_s=99999.0)) == minutes(25)


def test_only_the_newest_twenty_count() -> None:
    old = [record(n, lag_s=99999.0) for n in range(30)]
    assert remaining(*old, *(record(n) for n in range(30, 50))) == minutes(25)


@pytest.mark.parametrize("useless", [{"lag_s": None}, {"phases": {}}])
def test_half_the_sla_remains_while_too_few_are_known(useless: dict[str, object]) -> None:
    assert remaining(record(1), record(2), record(3, **useless)) == minutes(30)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, minutes(25)),
        (intent(minutes(0)), minutes(25)),
        (intent(minutes(10)), minutes(15)),
        (intent(minutes(24)), minutes(5)),
        (intent(minutes(90)), minutes(5)),
        (intent(minutes(1), kind=Kind.ROLLBACK), minutes(25)),
    ],
)
def test_remaining(held: Intent | None, expected: timedelta) -> None:
    assert remaining_time(NOW, feed_state(current=current(held))) == expected


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
    found = set[datetime]()
    for day in range(365):
        now = utc("2026-01-01 00:00") + timedelta(days=day)
        times = [one.at for one in expected_times(expected, (), now)]
        assert times == sorted(set(times))
        found |= {at for at in times if utc("2026-01-01 00:00") <= at < utc("2027-01-01 00:00")}
    assert len(found) == 3 * 365


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


TWICE = ExpectedArrivals(times=("06:00", "18:00"), zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "arrived", "states"),
    [
        (
            "2026-11-21 17:40",
            ["2026-11-21 05:20"],
            ["met", "overdue"],
        ),  # by the delivery nearest to it; 18:40 in Berlin
        ("2026-11-21 17:29", [], ["overdue", "pending"]),  # nothing is overdue within its grace period
        ("2026-11-21 17:40", ["2026-11-21 17:05"], ["skipped", "met"]),  # a later one arrived
        ("2026-10-25 22:00", ["2026-10-25 05:01", "2026-10-25 17:01"], ["met", "met"]),  # the clocks were put back
    ],
)
def test_each_expected_time_of_the_day_has_a_state(now: str, arrived: list[str], states: list[str]) -> None:
    verdict = evaluate(utc(now), feed_state(expected=TWICE, arrivals=tuple(map(utc, arrived))))
    assert [str(one.state) for one in verdict.expected if one.at.date() == utc(now).date()] == states
    assert verdict.zone == "Europe/Berlin"
