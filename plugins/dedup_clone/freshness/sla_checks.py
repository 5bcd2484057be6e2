"""Checks that the oldest waiting delivery is within the freshness SLA, and that the live snapshot is not too old."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import next_step_after_checks, stopped_by
from dedup_clone.contract.kind import Kind
from dedup_clone.freshness.baseline import describe_over_budget, describe_remaining, remaining_time
from dedup_clone.freshness.durations import format_duration, format_time
from dedup_clone.freshness.feed_state import FeedState, WaitingDelivery
from dedup_clone.freshness.incident import STOPPED_BY_CHECK, Incident, IncidentKind, Severity


def check_sla(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The oldest waiting delivery must become live within the SLA.

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
            IncidentKind.SLA_MISSED,
            Severity.ALERT,
            since=due,
            what=f"{arrival}, and is not live; the freshness SLA is {sla} min. {progress}",
            readers_see=state.readers_see(now),
            next_step=_step_for_person(state, oldest)
            or "open the publish run that is running (or failed) and read the log of its last task.",
            dag_id=dag_id,
            run_id=run_id,
        )
    elif _waits_for_approval(state) or _failure_reason(state, oldest) or now + remaining + state.check_interval > due:
        yield Incident(
            IncidentKind.SLA_AT_RISK,
            Severity.WARNING,
            since=now,
            what=(
                f"{arrival}; {describe_remaining(remaining, state)}, and the snapshot is due in "
                f"{format_duration(due - now)} ({format_time(due)}). "
                f"{progress} {describe_over_budget(state.history, state.sla)}"
            ).rstrip(),
            readers_see=state.readers_see(now),
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
        IncidentKind.TARGET_TOO_OLD,
        Severity.ALERT,
        since=state.live.arrived_at + timedelta(minutes=limit),
        what=f"the {'table' if state.live.taken_over else 'snapshot'} in target "
        f"{'was taken over' if state.live.taken_over else 'arrived'} {age} ago; its maximum age is {limit} min.",
        readers_see=state.readers_see(now),
        next_step="see whether a snapshot waits or none has arrived; this feed's other alerts say why.",
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
