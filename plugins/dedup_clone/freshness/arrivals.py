"""Judges whether a snapshot that is expected has come."""

from __future__ import annotations

from datetime import datetime, timedelta

from dedup_clone.freshness.facts import Facts
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.schedule import slots
from dedup_clone.freshness.words import clock, readers_see, span
from dedup_clone.settings.freshness import ExpectedArrivals

LOOK_BACK = timedelta(days=8)  # one week, and the slot before it


def overdue(now: datetime, facts: Facts) -> list[Incident]:
    """An arrival counts for the expected time it is nearest to, or for any before: after a gap the newest counts."""
    expected = facts.settings.expected_arrivals
    if expected is None:
        return []
    missed = missed_slots(expected, facts.arrivals, now)
    if not missed:
        return []
    times = ", ".join(clock(slot) for slot in missed[-3:])
    return [
        Incident(
            Kind.ARRIVAL_OVERDUE,
            Severity.ALERT,
            since=missed[0],
            what=(
                f"{len(missed)} expected arrival(s) did not come, the last of them: {times}; overdue for "
                f"{span(now - missed[-1])}, tolerated are {expected.grace_minutes} min. Last arrival: "
                f"{clock(max(facts.arrivals)) if facts.arrivals else 'none'}."
            ),
            readers_see=readers_see(facts, now),
            next_step="ask the producer where the snapshot is; look into landing whether its marker is missing.",
        )
    ]


def missed_slots(expected: ExpectedArrivals, arrivals: tuple[datetime, ...], now: datetime) -> list[datetime]:
    """The expected times since the last arrival that are overdue at `now`, oldest first, at most a week of them."""
    due = slots(expected, now - LOOK_BACK, now - timedelta(minutes=expected.grace_minutes))
    if not arrivals:
        return due[-1:]  # a feed that never had one: nobody knows since when it should have
    missed: list[datetime] = []
    for earlier, slot in zip(reversed(due[:-1]), reversed(due[1:]), strict=True):
        begins = earlier + (slot - earlier) / 2
        if any(begins <= arrived <= now for arrived in arrivals):
            break
        missed.append(slot)
    return missed[::-1]
