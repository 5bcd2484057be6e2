"""Expected arrivals as moments in time, whatever the clocks of the producer's country do."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dedup_clone.settings.freshness import ExpectedArrivals


def moment(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """A local time of a day in UTC. A time that is there twice counts the second time, one that is not there counts
    as much later as the clocks were put forward: nobody is called overdue for the change of clocks."""
    local = datetime.combine(day, clock, tzinfo=zone)
    return max(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def slots(expected: ExpectedArrivals, since: datetime, until: datetime) -> list[datetime]:
    """The expected arrivals from `since` to `until`, in UTC, in order, each once."""
    zone = ZoneInfo(expected.zone)
    first, last = since.astimezone(zone).date(), until.astimezone(zone).date()
    found = {
        moment(first + timedelta(days=days), clock, zone)
        for days in range(-1, (last - first).days + 2)
        for clock in expected.clock_times
    }
    return sorted(slot for slot in found if since <= slot <= until)
