"""What the page shows of the stored verdict, and the arrivals of the day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.page.freshness_view import status_and_headline, status_view, today_view
from dedup_clone.state.index import ExpectedTimes, Index
from tests.shared.page_indexes import NOW, arrival, empty, verdict

BERLIN = ExpectedTimes(("06:00", "18:00"), "Europe/Berlin", 30)
MISSED = Incident(IncidentKind.SLA_MISSED, Severity.ALERT, NOW, "snapshot 8 is not live", "snapshot 7", "open the run.")


def test_the_verdict_is_shown_with_its_age_and_the_next_expected_arrival() -> None:
    expected = NOW + timedelta(hours=2)
    view = status_view(replace(verdict("sales"), next_expected_at=expected), NOW + timedelta(seconds=40))
    assert (view["status"], view["headline"]) == ("fresh", "Readers see snapshot 2120, the newest one.")
    assert (view["check_age_s"], view["next_expected_at"]) == (80.0, expected.isoformat())


def test_an_expected_arrival_that_has_passed_since_the_check_is_not_the_next_one() -> None:
    stored = replace(verdict("sales"), next_expected_at=NOW + timedelta(hours=2))
    assert status_view(stored, NOW + timedelta(hours=3))["next_expected_at"] is None


def test_deliveries_that_waited_at_the_check_are_counted_unless_that_is_long_ago() -> None:
    stored = verdict("sales", waiting=1)
    counted = [status_view(stored, stored.checked_at + timedelta(minutes=age))["waiting"] for age in (15, 16)]
    assert counted == [1, None]


def test_its_incidents_are_shown_with_what_to_do() -> None:
    view = status_view(verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,)), NOW)
    assert view["status"] == "late"
    (incident,) = view["incidents"]
    assert (incident["kind"], incident["severity"]) == ("promise_missed", "alert")
    assert incident["title"] == "freshness SLA missed (promise_missed)"
    assert (incident["what"], incident["next_step"]) == ("snapshot 8 is not live", "open the run.")


def test_a_verdict_that_missed_three_checks_is_unknown_and_says_since_when() -> None:
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,))
    assert status_view(stored, stored.checked_at + timedelta(minutes=15))["status"] == "late"
    view = status_view(stored, stored.checked_at + timedelta(minutes=16))
    assert view["status"] == "unknown"
    assert view["headline"] == (
        "The watchdog has not checked since 2026-11-21 15:29:20 UTC, 16 min ago. "
        "Its last verdict was late: Readers see snapshot 2120."
    )
    assert len(view["incidents"]) == 1


def test_without_a_verdict_the_status_is_unknown_and_says_where_to_look() -> None:
    view = status_view(None, NOW)
    assert (view["status"], view["incidents"], view["check_age_s"]) == ("unknown", [], None)
    assert view["headline"].startswith("The watchdog has not checked this feed yet: see whether the DAG")


def test_a_feed_that_is_newer_than_the_last_check_of_others_says_when_it_is_checked() -> None:
    others = verdict("sales").summary
    view = status_view(None, NOW, newest_of_any_feed=others)
    assert view["headline"].endswith("yet: first check within 5 min after its last run, at 2026-11-21 15:29:20 UTC.")
    late = status_view(None, NOW + timedelta(hours=1), newest_of_any_feed=others)
    assert "paused" in late["headline"]


def feed(*arrived_at: datetime, expected: ExpectedTimes | None = BERLIN) -> Index:
    arrivals = tuple(arrival(number, at) for number, at in enumerate(arrived_at, 1))
    return replace(empty(), expected=expected, arrivals=arrivals)


def expected_today(index: Index, now: datetime) -> list[tuple[str, str]]:
    return [(expected["clock"], expected["state"]) for expected in today_view(index, now)["expected"]]


def test_each_expected_time_is_met_by_the_delivery_nearest_to_it() -> None:
    now = datetime(2026, 11, 21, 17, 40, tzinfo=UTC)  # 18:40 in Berlin
    found = expected_today(feed(datetime(2026, 11, 21, 5, 20, tzinfo=UTC)), now)
    assert found == [("06:00", "met"), ("18:00", "overdue")]


def test_nothing_is_overdue_within_its_grace_period() -> None:
    now = datetime(2026, 11, 21, 17, 29, tzinfo=UTC)
    assert expected_today(feed(), now) == [("06:00", "overdue"), ("18:00", "pending")]


def test_an_expected_arrival_is_skipped_when_a_later_one_arrived() -> None:
    now = datetime(2026, 11, 21, 17, 40, tzinfo=UTC)
    found = expected_today(feed(datetime(2026, 11, 21, 17, 5, tzinfo=UTC)), now)
    assert found == [("06:00", "skipped"), ("18:00", "met")]


def test_the_day_is_the_day_of_the_feeds_zone() -> None:
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)  # already the 21st in Berlin
    assert today_view(feed(), now)["day"] == "2026-11-21"
    assert today_view(feed(expected=None), now)["day"] == "2026-11-20"
    yesterday, early = now - timedelta(hours=2), now - timedelta(minutes=5)
    seen: list[dict[str, Any]] = today_view(feed(yesterday, early), now)["seen"]
    assert [a["arrived_at"] for a in seen] == [early.isoformat()]


def test_the_day_on_which_clocks_change_has_all_its_arrivals() -> None:
    now = datetime(2026, 10, 25, 22, 0, tzinfo=UTC)
    arrived = datetime(2026, 10, 25, 5, 1, tzinfo=UTC), datetime(2026, 10, 25, 17, 1, tzinfo=UTC)
    assert [state for _, state in expected_today(feed(*arrived), now)] == ["met", "met"]


def test_a_feed_without_expected_times_has_none_on_the_page() -> None:
    assert expected_today(feed(expected=None), datetime(2026, 11, 21, tzinfo=UTC)) == []


def test_a_delivery_that_became_due_after_the_check_is_late_and_not_at_risk() -> None:
    due = NOW + timedelta(minutes=2)
    warning = replace(MISSED, kind=IncidentKind.SLA_AT_RISK, severity=Severity.WARNING, what="snapshot 8 is due soon")
    paused = replace(MISSED, kind=IncidentKind.WATCH_PAUSED)
    stored = verdict(
        "sales", FreshnessStatus.AT_RISK, headline="Readers see snapshot 7; 1 more waits.",
        incidents=(warning, paused), due_at=due,
    )  # fmt: skip
    assert status_view(stored, due)["status"] == "at risk"
    view = status_view(stored, due + timedelta(seconds=1))
    assert (view["status"], view["headline"]) == (
        "late",
        "Readers see snapshot 7; 1 more waits. A snapshot was due 2026-11-21 15:32:00 UTC.",
    )
    missed, other = view["incidents"]
    assert (missed["kind"], missed["severity"], missed["since"]) == ("promise_missed", "alert", due.isoformat())
    assert missed["what"] == (
        "a snapshot was due 2026-11-21 15:32:00 UTC and is not live. "
        "At the check of 2026-11-21 15:29:20 UTC: snapshot 8 is due soon"
    )
    assert other["kind"] == "watch_paused"
    assert status_and_headline(stored.summary, due + timedelta(seconds=1))[0] == "late"
    assert status_view(stored, stored.checked_at + timedelta(minutes=16))["status"] == "unknown"
    unchecked = stored.checked_at + timedelta(minutes=16)
    assert [i["kind"] for i in status_view(stored, unchecked)["incidents"]] == ["promise_at_risk", "watch_paused"]
    known = status_view(stored, unchecked, due_now=due)
    assert (known["status"], known["incidents"][0]["kind"]) == ("unknown", "promise_missed")
    of_a_newer_one = status_view(stored, unchecked, due_now=due + timedelta(minutes=5))
    assert of_a_newer_one["incidents"][0]["kind"] == "promise_at_risk"


def test_a_feed_with_an_invalid_file_stays_stopped_when_a_snapshot_becomes_due() -> None:
    stored = verdict("sales", FreshnessStatus.STOPPED, headline="The feed's file is invalid.", due_at=NOW)
    view = status_view(stored, NOW + timedelta(minutes=1))
    assert (view["status"], view["headline"]) == (
        "stopped",
        "The feed's file is invalid. A snapshot was due 2026-11-21 15:30:00 UTC.",
    )
