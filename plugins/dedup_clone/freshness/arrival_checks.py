"""Computes when a feed's deliveries are expected and which of them arrived, and checks that none is overdue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dedup_clone.freshness.durations import format_duration, format_time
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState
from dedup_clone.settings.freshness_settings import ExpectedArrivals

LOOKBACK = timedelta(days=7)  # older expected times are not checked
_MAX_GAP = timedelta(days=2)  # expected times repeat daily, so any two successive ones are closer than this


def to_utc(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """Convert a local time to UTC.

    If a local time occurs twice, when clocks are put back, the later time is returned. A local time that is skipped,
    when clocks are put forward, moves forward too. So no arrival becomes overdue too early.
    """
    local = datetime.combine(day, clock, tzinfo=zone)
    return max(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def expected_times(expected: ExpectedArrivals, since: datetime, until: datetime) -> list[datetime]:
    """The expected times from `since` to `until` in UTC, sorted, without duplicates."""
    zone = ZoneInfo(expected.zone)
    first, last = since.astimezone(zone).date(), until.astimezone(zone).date()
    times = {
        to_utc(first + timedelta(days=days), clock, zone)
        for days in range(-1, (last - first).days + 2)
        for clock in expected.clock_times
    }
    return sorted(at for at in times if since <= at <= until)


def expected_times_with_states(
    expected: ExpectedArrivals, arrivals: Iterable[datetime], now: datetime, *, since: datetime, until: datetime
) -> list[ExpectedTime]:
    """The expected times from `since` to `until`, each with its state at `now`. `arrivals`: when deliveries arrived."""
    times = expected_times(expected, since - _MAX_GAP, until + _MAX_GAP)
    grace, arrived = timedelta(minutes=expected.grace_minutes), [a for a in arrivals if a <= now]

    def state(before: datetime, at: datetime, after: datetime) -> ExpectedTimeState:
        begins, ends = before + (at - before) / 2, at + (after - at) / 2
        if any(begins <= a < ends for a in arrived):
            return ExpectedTimeState.MET
        if any(a >= ends for a in arrived):
            return ExpectedTimeState.SKIPPED
        return ExpectedTimeState.OVERDUE if now >= at + grace else ExpectedTimeState.PENDING

    neighbours = zip(times, times[1:], times[2:], strict=False)
    return [ExpectedTime(at, state(before, at, after)) for before, at, after in neighbours if since <= at <= until]


def overdue_times(expected: ExpectedArrivals, arrivals: tuple[datetime, ...], now: datetime) -> list[datetime]:
    """The overdue expected times of the last week, oldest first.

    If no delivery ever arrived, only the latest is returned, because nobody knows when the first delivery was due.
    """
    times = expected_times_with_states(expected, arrivals, now, since=now - LOOKBACK, until=now)
    overdue = [one.at for one in times if one.state is ExpectedTimeState.OVERDUE]
    return overdue if arrivals else overdue[-1:]


def next_expected(expected: ExpectedArrivals | None, now: datetime) -> datetime | None:
    """The next expected time; None when the feed expects no arrivals."""
    return None if expected is None else expected_times(expected, now, now + _MAX_GAP)[0]


def expected_today(
    expected: ExpectedArrivals | None, arrivals: Iterable[datetime], now: datetime
) -> list[ExpectedTime]:
    """The expected times of the day, as the calendar of their zone has it, each with its state at `now`."""
    if expected is None:
        return []
    zone = ZoneInfo(expected.zone)
    day = now.astimezone(zone).date()
    begins = datetime.combine(day, time(), zone).astimezone(UTC)
    end = begins + timedelta(hours=25)  # the longest day, on which the clocks are put back
    times = expected_times_with_states(expected, arrivals, now, since=begins, until=end)
    return [one for one in times if one.at.astimezone(zone).date() == day]


def check_arrivals(now: datetime, state: FeedState) -> Iterator[Incident]:
    """No expected arrival may be overdue: one incident for all that are."""
    expected = state.settings.expected_arrivals
    overdue = [] if expected is None else overdue_times(expected, state.arrivals, now)
    if expected is None or not overdue:
        return
    times = ", ".join(format_time(at) for at in overdue[-3:])
    yield Incident(
        IncidentKind.ARRIVAL_OVERDUE,
        Severity.ALERT,
        since=overdue[0],
        what=(
            f"{len(overdue)} expected arrival(s) are missing, the latest: {times}; the last of them was due "
            f"{format_duration(now - overdue[-1])} ago, the grace period is {expected.grace_minutes} min. "
            f"Last arrival: {format_time(max(state.arrivals)) if state.arrivals else 'none'}."
        ),
        next_step="ask the producer where the snapshot is, and look in landing whether its marker is missing.",
    )
