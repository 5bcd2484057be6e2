"""Builds the JSON values that the page shows of a feed's freshness: the verdict with its age, and today's arrivals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.arrival_checks import ExpectedTime, expected_times_with_states
from dedup_clone.freshness.durations import format_duration, format_time
from dedup_clone.freshness.incident import Incident, IncidentKind
from dedup_clone.freshness.verdict import FreshnessVerdict, VerdictSummary
from dedup_clone.settings.freshness_settings import ExpectedArrivals
from dedup_clone.state.index import Index, IndexArrival

UNKNOWN = "unknown"
NO_VERDICT = (
    "The watchdog has not checked this feed yet. If it does not within some minutes, see whether the DAG "
    "freshness_watchdog is paused or its task fails."
)
# No verdict has incidents of these kinds, because no check of the feed finds them.
_NEVER_IN_VERDICT = (IncidentKind.FEED_NOT_CHECKED, IncidentKind.ROWS_NOT_LOADED)


def status_view(verdict: FreshnessVerdict | None, now: datetime, reported: Iterable[Incident] = ()) -> dict[str, Any]:
    """The verdict as of `now`. Its status is `unknown` if there is no verdict, or if it is too old to be trusted.

    The view's `waiting` is that of the verdict, as the headline's; None without a verdict that can be trusted.
    `reported`: the open incidents; those that the verdict cannot have are shown after those that it has.
    `next_step`: of the first incident.
    """
    status, headline = status_and_headline(verdict, now)
    found = _incidents(verdict, reported)
    expected = None if verdict is None else verdict.next_expected_at
    return {
        "status": status,
        "headline": headline,
        "next_step": found[0].next_step if found else "",
        "incidents": [to_plain(one) for one in found],
        "waiting": None if verdict is None or verdict.is_stale(now) else verdict.waiting,
        "check_age_s": None if verdict is None else (now - verdict.checked_at).total_seconds(),
        "next_expected_at": None if expected is None or expected < now else to_plain(expected),
        "runbook": "" if verdict is None else verdict.runbook,
    }


def _incidents(verdict: FreshnessVerdict | None, reported: Iterable[Incident]) -> list[Incident]:
    """The incidents of the verdict, and the reported ones of kinds that no verdict has; without a verdict all reported.

    Other reported ones have ended since, although the watchdog has not reported their ends yet.
    """
    found = list(verdict.incidents) if verdict else []
    names = {incident.name for incident in found}
    found += [
        incident
        for incident in reported
        if incident.name not in names and (verdict is None or incident.kind in _NEVER_IN_VERDICT)
    ]
    return found


def status_and_headline(verdict: FreshnessVerdict | VerdictSummary | None, now: datetime) -> tuple[str, str]:
    """Status and headline as of `now`."""
    if verdict is None:
        return UNKNOWN, NO_VERDICT
    if verdict.is_stale(now):
        age = format_duration(now - verdict.checked_at)
        return UNKNOWN, (
            f"The watchdog has not checked since {format_time(verdict.checked_at)}, {age} ago. "
            f"Its last verdict was {verdict.status}: {verdict.headline}"
        )
    return str(verdict.status), verdict.headline


def today_view(index: Index, now: datetime, unregistered: int = 0) -> dict[str, Any]:
    """Today's expected and actual arrivals. Today is the date in the time zone of the expected times, else in UTC.

    `unregistered`: the number of deliveries that the watchdog has seen in landing and the watch DAG not yet.
    """
    zone = ZoneInfo(index.expected.zone if index.expected else "UTC")
    day = now.astimezone(zone).date()
    begins = datetime.combine(day, time(), zone).astimezone(UTC)
    expected_times: list[ExpectedTime] = []
    if index.expected is not None:
        times, grace = index.expected.times, index.expected.grace_minutes
        expected = ExpectedArrivals(times=times, zone=index.expected.zone, grace_minutes=grace)
        arrivals = [a.arrived_at for a in index.arrivals]
        # The longest day, on which the clocks are put back, has 25 hours.
        end = begins + timedelta(hours=25)
        expected_times = expected_times_with_states(expected, arrivals, now, since=begins, until=end)
    local_times = [(expected_time.at.astimezone(zone), expected_time.state) for expected_time in expected_times]
    return {
        "day": day.isoformat(),
        "zone": zone.key,
        "has_schedule": index.expected is not None,
        "expected": [
            {"at": at.isoformat(), "clock": f"{at:%H:%M}", "state": str(state)}
            for at, state in local_times
            if at.date() == day
        ],
        "seen": [arrival_view(a) for a in index.arrivals if begins <= a.arrived_at],
        "unregistered": unregistered,
    }


def arrival_view(arrival: IndexArrival) -> dict[str, Any]:
    """One arrival. Its ids are strings, because JavaScript's numbers are exact only up to 2**53."""
    return {
        "snapshot_id": str(arrival.delivery.snapshot_id),
        "marker_generation": str(arrival.delivery.marker_generation),
        "arrived_at": arrival.arrived_at.isoformat(),
        "files": arrival.files,
        "bytes": arrival.bytes,
        "state": str(arrival.state),
        "reason": arrival.reason,
        "refused_at": to_plain(arrival.refused_at),
        "dates": arrival.dates,
    }
