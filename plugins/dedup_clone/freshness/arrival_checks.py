"""Checks that deliveries arrive when they are expected, and are live within the freshness SLA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from statistics import median
from zoneinfo import ZoneInfo

from dedup_clone.checks.check_result import next_step_after_checks, stopped_by
from dedup_clone.contract.attempt import Kind
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, format_duration, format_time
from dedup_clone.freshness.verdict import CHECK_INTERVAL, ExpectedTime, ExpectedTimeState
from dedup_clone.settings.feed import ExpectedArrivals
from dedup_clone.state.ledger import PUBLISHES_COMPARED

# The days whose expected times are judged: the last week, today and the next two. The first and the last time of them
# have no neighbour, and are left out.
DAYS = range(-7, 3)


def to_utc(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """Convert a local time to UTC.

    If a local time occurs twice, when clocks are put back, the later time is returned. A local time that is skipped,
    when clocks are put forward, moves forward too. So no arrival becomes overdue too early.
    """
    local = datetime.combine(day, clock, tzinfo=zone)
    return max(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def expected_times(
    expected: ExpectedArrivals | None, arrivals: Iterable[datetime], now: datetime
) -> list[ExpectedTime]:
    """The expected times of the last week and the next days, each with its state at `now`.

    `arrivals`: when deliveries arrived. None are expected by a feed without `expected`.
    """
    if expected is None:
        return []
    zone = ZoneInfo(expected.zone)
    today = now.astimezone(zone).date()
    dates = [today + timedelta(days=days) for days in DAYS]
    times = sorted({to_utc(day, clock, zone) for day in dates for clock in expected.clock_times})
    grace, arrived = timedelta(minutes=expected.grace_minutes), [a for a in arrivals if a <= now]

    def state(before: datetime, at: datetime, after: datetime) -> ExpectedTimeState:
        begins, ends = before + (at - before) / 2, at + (after - at) / 2
        if any(begins <= a < ends for a in arrived):
            return ExpectedTimeState.MET
        if any(a >= ends for a in arrived):
            return ExpectedTimeState.SKIPPED
        return ExpectedTimeState.OVERDUE if now >= at + grace else ExpectedTimeState.PENDING

    neighbours = zip(times, times[1:], times[2:], strict=False)
    return [ExpectedTime(at, state(before, at, after)) for before, at, after in neighbours]


def overdue_times(expected: ExpectedArrivals | None, arrivals: tuple[datetime, ...], now: datetime) -> list[datetime]:
    """The overdue expected times of the last week, oldest first.

    If no delivery ever arrived, only the latest is returned, because nobody knows when the first delivery was due.
    """
    times = expected_times(expected, arrivals, now)
    overdue = [one.at for one in times if one.state is ExpectedTimeState.OVERDUE]
    return overdue if arrivals else overdue[-1:]


def check_arrivals(now: datetime, state: FeedState) -> Iterator[Incident]:
    """No expected arrival may be overdue: one incident for all that are."""
    expected = state.settings.expected_arrivals
    overdue = overdue_times(expected, state.arrivals, now)
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


# With fewer publishes, half of the SLA counts as the usual duration from lease to swap.
PUBLISHES_NEEDED = 3


def check_sla(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The oldest waiting delivery must become live within the SLA: a warning while that is at risk, then an alert.

    The SLA is at risk when the last attempt failed. It is also at risk when, at the next check, less time would be left
    than the rest of the publish usually takes: a warning by that check would come too late.
    """
    oldest, due = state.oldest_waiting, state.due_at
    if oldest is None or due is None:
        return
    remaining, failure = remaining_time(now, state), _failure_reason(state)
    is_missed = now > due
    if not is_missed and not failure and now + remaining + CHECK_INTERVAL <= due:
        return
    outlook = f"and is not live; the freshness SLA is {state.sla // timedelta(minutes=1)} min"
    if not is_missed:
        outlook = (
            f"what remains usually takes {format_duration(remaining)}, and the snapshot is due in "
            f"{format_duration(due - now)} ({format_time(due)})"
        )
    dag_id, run_id = _run_to_see(state)
    yield Incident(
        IncidentKind.LATE,
        Severity.ALERT if is_missed else Severity.WARNING,
        since=due if is_missed else now,
        what=(
            f"snapshot {oldest.delivery.snapshot_id} arrived {format_time(oldest.arrived_at)}, "
            f"{format_duration(now - oldest.arrived_at)} ago, {outlook}. {_describe_progress(now, state, failure)}"
        ),
        next_step=_next_step(state, failure),
        dag_id=dag_id,
        run_id=run_id,
    )


def check_age(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The live snapshot must not be older than the feed's maximum age, whether or not a delivery waits."""
    limit = state.settings.max_age_minutes
    if limit is None or state.live is None or now - state.live.arrived_at <= timedelta(minutes=limit):
        return
    yield Incident(
        IncidentKind.LATE,
        Severity.ALERT,
        since=state.live.arrived_at + timedelta(minutes=limit),
        what=f"what target holds arrived {format_duration(now - state.live.arrived_at)} ago; its maximum age is "
        f"{limit} min.",
        next_step="see whether a snapshot waits or none has arrived; this feed's other alerts say why.",
        subject="too_old",
    )


def _next_step(state: FeedState, failure: str) -> str:
    if state.current.intent is None and state.stopped is not None:
        return next_step_after_checks(state.stopped.failed)
    if state.current.intent is None and failure:
        return (
            "read the log of the failed run, which says what to correct; then clear that run from its first task, or "
            "wait for the next one."
        )
    return "open the publish run and see what it waits for: Spark, BigQuery, or another run."


def _failure_reason(state: FeedState) -> str:
    """Why the last attempt to publish what waits failed; empty if none failed, or if another publish is running."""
    intent = state.current.intent
    if intent is not None and intent.kind is Kind.PUBLISH:
        ended = f"run [{intent.run_id}] ended and left its attempt to the next run"
        return "" if state.lease_holder_running else ended
    if state.stopped is not None:
        return stopped_by(state.stopped.failed)
    return "" if state.failed_run is None else f"the log of run [{state.failed_run.run_id}] says why"


def _run_to_see(state: FeedState) -> tuple[str, str]:
    """The DAG id and run id of the run that holds the lease, else of the run that failed last; empty without both."""
    if state.current.intent is not None:
        return state.current.intent.dag_id, state.current.intent.run_id
    return ("", "") if state.failed_run is None else (f"{state.feed}_publish", state.failed_run.run_id)


def _describe_progress(now: datetime, state: FeedState, failure: str) -> str:
    """Sentences about why the last attempt failed, and how far the run is that holds the lease."""
    intent, text = state.current.intent, f"The last attempt failed: {failure}. " if failure else ""
    if state.failed_run is not None and state.failed_run.repeat_at is not None:
        text += f"The next run starts at {format_time(state.failed_run.repeat_at)}. "
    if intent is None:
        return f"{text}No run holds the lease."
    step = intent.jobs[-1] if intent.jobs else "no BigQuery job yet"
    held = format_duration(now - intent.taken_at)
    return f"{text}Run [{intent.run_id}] has held the lease for {held}; last step: {step}."


def remaining_time(now: datetime, state: FeedState) -> timedelta:
    """The time until the swap of the delivery that is being published, or is published next.

    From lease to swap it is the median of the last publishes, or half of the SLA after too few. A run that takes
    longer than that is expected to take a fifth of it yet.
    """
    publishes = [r for r in state.history if r.lag_s is not None and "until_lease" in r.phases][-PUBLISHES_COMPARED:]
    seconds = [max(0.0, (r.lag_s or 0.0) - r.phases["until_lease"]) for r in publishes]
    usual = timedelta(seconds=median(seconds)) if len(seconds) >= PUBLISHES_NEEDED else state.sla / 2
    intent = state.current.intent
    if intent is None or intent.kind is not Kind.PUBLISH:
        return usual
    return max(usual - (now - intent.taken_at), usual / 5)
