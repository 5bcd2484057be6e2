"""Arrivals that were expected today, and which of them came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dedup_clone.freshness.schedule import slots
from dedup_clone.settings.freshness import ExpectedArrivals
from dedup_clone.state.index import Index, IndexArrival


@dataclass(frozen=True)
class Due:
    """One expected arrival. `at` in the feed's zone; `met` when a delivery came nearer to it than to its neighbours."""

    at: datetime
    met: bool
    is_overdue: bool


def zone_of(index: Index) -> str:
    """The zone in which the feed's day is meant."""
    return index.expected.zone if index.expected else "UTC"


def today(index: Index, now: datetime) -> date:
    return now.astimezone(ZoneInfo(zone_of(index))).date()


def day_begins(index: Index, now: datetime) -> datetime:
    return datetime.combine(today(index, now), time(), ZoneInfo(zone_of(index))).astimezone(UTC)


def seen_today(index: Index, now: datetime) -> list[IndexArrival]:
    begins = day_begins(index, now)
    return [a for a in index.arrivals if begins <= a.arrived_at]


def due_today(index: Index, now: datetime) -> list[Due]:
    """Expected arrivals of the day, in order; none when the feed names none."""
    if index.expected is None:
        return []
    expected = ExpectedArrivals(
        times=index.expected.times, zone=index.expected.zone, grace_minutes=index.expected.grace_minutes
    )
    begins, zone, day = day_begins(index, now), ZoneInfo(index.expected.zone), today(index, now)
    around = slots(expected, begins - timedelta(days=2), begins + timedelta(days=3))
    grace = timedelta(minutes=index.expected.grace_minutes)
    found = []
    for before, at, after in zip(around, around[1:], around[2:], strict=False):
        if at.astimezone(zone).date() == day:
            first, last = before + (at - before) / 2, at + (after - at) / 2
            met = any(first <= a.arrived_at < last for a in index.arrivals)
            found.append(Due(at.astimezone(zone), met, not met and now > at + grace))
    return found
