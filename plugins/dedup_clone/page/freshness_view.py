"""Builds the JSON values that the page shows of a feed's freshness: the verdict with its age, and today's arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.verdict import FreshnessVerdict, status_and_headline
from dedup_clone.page.feed_history import ListedArrival


def status_view(verdict: FreshnessVerdict, now: datetime) -> dict[str, Any]:
    """The verdict as of `now`.

    The view's `waiting` is that of the verdict, as the headline's; None if the verdict is stale.
    `next_step`: of the first incident.
    """
    status, headline = status_and_headline(verdict, now)
    expected = verdict.next_expected_at
    return {
        "status": str(status),
        "headline": headline,
        "next_step": verdict.incidents[0].next_step if verdict.incidents else "",
        "incidents": [{"name": one.name, **to_plain(one)} for one in verdict.incidents],
        "waiting": None if verdict.is_stale(now) else verdict.waiting,
        "check_age_s": (now - verdict.checked_at).total_seconds(),
        "next_expected_at": None if expected is None or expected < now else to_plain(expected),
        "runbook": verdict.runbook,
    }


def today_view(
    verdict: FreshnessVerdict, arrivals: Sequence[ListedArrival], now: datetime, unregistered: int = 0
) -> dict[str, Any]:
    """Today's expected and actual arrivals. Today is the date in the time zone of the expected times, else in UTC.

    `unregistered`: the number of deliveries that the watchdog has seen in landing and the watch DAG not yet.
    """
    zone = ZoneInfo(verdict.zone)
    day = now.astimezone(zone).date()
    begins = datetime.combine(day, time(), zone).astimezone(UTC)
    expected = [(one.at.astimezone(zone), one.state) for one in verdict.expected_today]
    return {
        "day": day.isoformat(),
        "zone": zone.key,
        "has_schedule": verdict.next_expected_at is not None,
        "expected": [
            {"at": at.isoformat(), "clock": f"{at:%H:%M}", "state": str(state)}
            for at, state in expected
            if at.date() == day
        ],
        "seen": [arrival_view(a) for a in arrivals if begins <= a.arrived_at],
        "unregistered": unregistered,
    }


def arrival_view(arrival: ListedArrival) -> dict[str, Any]:
    """One arrival. Its ids are strings, because JavaScript's numbers are exact only up to 2**53."""
    refusal = arrival.refusal
    return {
        "snapshot_id": str(arrival.delivery.snapshot_id),
        "marker_generation": str(arrival.delivery.marker_generation),
        "arrived_at": arrival.arrived_at.isoformat(),
        "files": arrival.files,
        "bytes": arrival.bytes,
        "state": str(arrival.state),
        "reason": refusal.reason if refusal else "",
        "refused_at": refusal.refused_at.isoformat() if refusal else None,
        "dates": arrival.dates,
    }
