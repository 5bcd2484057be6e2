"""Checks that deliveries arrive when they are expected, and are live within the freshness SLA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from statistics import median
from zoneinfo import ZoneInfo

from dedup_clone.checks.check_result import next_step_after_checks, stopped_by
from dedup_clone.contract.attempt import Kind
from dedup_clone.freshness.feed_state import FeedState, WaitingDelivery
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, format_duration, format_time
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState
from dedup_clone.settings.feed import ExpectedArrivals
from dedup_clone.state.ledger import PUBLISHES_COMPARED, LedgerRecord, count_loads

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


# A sentence of an incident whose publish failed a check before the swap.
STOPPED_BY_CHECK = "A check stopped the publish"
# With fewer publishes, half of the SLA counts as the usual duration from lease to swap, and a quarter as that from the
# end of the dedup job to the swap. A phase that fewer publishes have is not compared with its budget.
PUBLISHES_NEEDED = 3

# The latency budget of an SLA of one hour: minutes for each phase, named as in the ledger (docs/costs-and-limits.md).
# The rest of the hour is for the short phases, and a reserve.
BUDGET_MINUTES_PER_HOUR = {"until_lease": 2, "spark_start": 2, "dedup": 20, "load": 25, "swap": 1, "queued": 1}


def check_sla(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The oldest waiting delivery must become live within the SLA: a warning while that is at risk, then an alert.

    The SLA is at risk when the last attempt failed, or waits for an approval. It is also at risk when, at the next
    check, less time would be left than the rest of the publish usually takes: a warning by that check would come too
    late.
    """
    oldest, due, remaining = state.oldest_waiting, state.due_at, remaining_time(now, state)
    if oldest is None or due is None:
        return
    arrival, progress = _describe_arrival(now, oldest), _describe_progress(now, state, oldest)
    dag_id, run_id = _run_to_see(state, oldest)
    if now > due:
        sla = state.sla // timedelta(minutes=1)
        yield Incident(
            IncidentKind.LATE,
            Severity.ALERT,
            since=due,
            what=f"{arrival}, and is not live; the freshness SLA is {sla} min. {progress}",
            next_step=_step_for_person(state, oldest)
            or "open the publish run that is running (or failed) and read the log of its last task.",
            dag_id=dag_id,
            run_id=run_id,
        )
    elif _waits_for_approval(state) or _failure_reason(state, oldest) or now + remaining + state.check_interval > due:
        yield Incident(
            IncidentKind.LATE,
            Severity.WARNING,
            since=now,
            what=(
                f"{arrival}; {describe_remaining(remaining, state)}, and the snapshot is due in "
                f"{format_duration(due - now)} ({format_time(due)}). "
                f"{progress} {describe_over_budget(state.history, state.sla)}"
            ).rstrip(),
            next_step=_step_for_person(state, oldest)
            or "watch the publish run; see whether its jobs wait in Spark or BigQuery, or for another run.",
            dag_id=dag_id,
            run_id=run_id,
        )


def check_age(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The live snapshot must not be older than the feed's maximum age, whether or not a delivery waits."""
    limit = state.settings.max_age_minutes
    if limit is None or state.live is None or now - state.live.arrived_at <= timedelta(minutes=limit):
        return
    age = format_duration(now - state.live.arrived_at)
    yield Incident(
        IncidentKind.LATE,
        Severity.ALERT,
        since=state.live.arrived_at + timedelta(minutes=limit),
        what=f"the {'table' if state.live.taken_over else 'snapshot'} in target "
        f"{'was taken over' if state.live.taken_over else 'arrived'} {age} ago; its maximum age is {limit} min.",
        next_step="see whether a snapshot waits or none has arrived; this feed's other alerts say why.",
        subject="too_old",
    )


def _describe_arrival(now: datetime, oldest: WaitingDelivery) -> str:
    ago = format_duration(now - oldest.arrived_at)
    return f"snapshot {oldest.delivery.snapshot_id} arrived {format_time(oldest.arrived_at)}, {ago} ago"


def _waits_for_approval(state: FeedState) -> bool:
    return state.current.intent is not None and state.current.intent.waits_for_approval


def _step_for_person(state: FeedState, oldest: WaitingDelivery) -> str:
    """What a person must do before the publish can go on; empty if it waits for nobody."""
    if _waits_for_approval(state):
        return "approve or reject the accepted checks (Airflow: Required Actions; page Snapshots)."
    if state.current.intent is not None:
        return ""
    if state.failed_checks or not _failure_reason(state, oldest):
        return next_step_after_checks(state.failed_checks)
    return (
        "read the log of the failed run, which says what to correct; then clear that run from its first task, or wait "
        "for the next one."
    )


def _failure_reason(state: FeedState, oldest: WaitingDelivery) -> str:
    """Why the last attempt to publish the delivery failed; empty if none failed, or if another publish is running."""
    intent, run = state.current.intent, state.failed_run
    if intent is not None and intent.kind is Kind.PUBLISH:
        ended = f"run [{intent.run_id}] ended and left its attempt to the next run"
        return "" if state.lease_holder_running else ended
    if state.is_stopped_before_dedup:
        return stopped_by(state.failed_checks)
    reason = next((f.reason for f in reversed(state.failures) if oldest.delivery in f.deliveries), "")
    return reason or ("" if run is None else f"the log of run [{run.run_id}] says why")


def _run_to_see(state: FeedState, oldest: WaitingDelivery) -> tuple[str, str]:
    """The DAG id and run id of the run that holds the lease, else of the run that failed last; empty without both."""
    intent = state.current.intent
    if intent is not None:
        return intent.dag_id, intent.run_id
    if state.failed_run is not None:
        return f"{state.feed}_publish", state.failed_run.run_id
    failures = (f for f in reversed(state.failures) if oldest.delivery in f.deliveries)
    return next(((f.dag_id, f.run_id) for f in failures), ("", ""))


def _describe_progress(now: datetime, state: FeedState, oldest: WaitingDelivery) -> str:
    """Sentences about what waits, why the last attempt failed, and how far the run is that holds the lease."""
    text = f"{len(state.waiting)} deliveries wait. " if len(state.waiting) > 1 else ""
    unregistered = sum(not waiting.is_registered for waiting in state.waiting)
    if unregistered:
        text += f"The watch DAG has not registered {unregistered} of {len(state.waiting)} waiting. "
    intent, failure = state.current.intent, _failure_reason(state, oldest)
    if failure:
        text += f"The last attempt failed: {failure}. "
    if state.failed_checks and intent is None:
        text += f"{STOPPED_BY_CHECK}. "
    if state.failed_run is not None and state.failed_run.repeat_at is not None:
        text += f"The next run starts at {format_time(state.failed_run.repeat_at)}. "
    if intent is None:
        return f"{text}No run holds the lease."
    if intent.waits_for_approval:
        return f"{text}Run [{intent.run_id}] waits for an approval."
    step = intent.jobs[-1] if intent.jobs else "no BigQuery job yet"
    held = format_duration(now - intent.taken_at)
    return f"{text}Run [{intent.run_id}] has held the lease for {held}; last step: {step}."


@dataclass(frozen=True)
class Baseline:
    """Median durations from lease to swap, and from the end of the dedup job to swap.

    `is_measured`: False if there were too few publishes, so that shares of the SLA are assumed instead.
    """

    lease_to_swap: timedelta
    after_dedup: timedelta
    is_measured: bool = True


def compute_baseline(history: tuple[LedgerRecord, ...], sla: timedelta) -> Baseline:
    """The medians over the last publishes in `history`.

    Replays and other records without a lag, or without the phase `until_lease`, are left out.
    """
    publishes = [r for r in _with_lag(history) if "until_lease" in r.phases][-PUBLISHES_COMPARED:]
    if len(publishes) < PUBLISHES_NEEDED:
        return Baseline(sla / 2, sla / 4, is_measured=False)
    to_swap_s = [max(0.0, (r.lag_s or 0.0) - r.phases["until_lease"]) for r in publishes]
    after_dedup_s = [max(0.0, s - _until_dedup_ended_s(r)) for s, r in zip(to_swap_s, publishes, strict=True)]
    return Baseline(timedelta(seconds=median(to_swap_s)), timedelta(seconds=median(after_dedup_s)))


def _until_dedup_ended_s(record: LedgerRecord) -> float:
    """Seconds from the lease to the end of the dedup job. An engine in SQL has no `spark_start`."""
    return sum(record.phases.get(phase, 0.0) for phase in ("task_start", "spark_start", "dedup"))


def remaining_time(now: datetime, state: FeedState) -> timedelta:
    """The usual time until the swap of the delivery that is being published, or is published next."""
    medians, intent = compute_baseline(state.history, state.sla), state.current.intent
    if intent is None or intent.kind is not Kind.PUBLISH:
        return medians.lease_to_swap
    if count_loads(intent.jobs):  # the load job is recorded, so the dedup job has ended
        return medians.after_dedup
    return max(medians.lease_to_swap - (now - intent.taken_at), medians.after_dedup)


def describe_remaining(remaining: timedelta, state: FeedState) -> str:
    """Return a phrase such as `what remains usually takes 25 min`, or `is assumed to take` after too few publishes."""
    is_measured = compute_baseline(state.history, state.sla).is_measured
    return f"what remains {'usually takes' if is_measured else 'is assumed to take'} {format_duration(remaining)}"


def describe_over_budget(history: tuple[LedgerRecord, ...], sla: timedelta) -> str:
    """Return a sentence that names the phases whose median exceeds their latency budget; empty if there is none."""
    publishes = _with_lag(history)[-PUBLISHES_COMPARED:]
    exceeded = []
    for phase, minutes in BUDGET_MINUTES_PER_HOUR.items():
        seconds = [r.phases[phase] for r in publishes if phase in r.phases]
        budget = sla * minutes / 60
        if len(seconds) >= PUBLISHES_NEEDED and timedelta(seconds=median(seconds)) > budget:
            typical = format_duration(timedelta(seconds=median(seconds)))
            exceeded.append(f"{phase} takes {typical} of {format_duration(budget)}")
    return f"Usually over budget (docs/costs-and-limits.md): {', '.join(exceeded)}." if exceeded else ""


def _with_lag(history: tuple[LedgerRecord, ...]) -> list[LedgerRecord]:
    return [record for record in history if record.lag_s is not None]
