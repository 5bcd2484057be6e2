"""Checks one publish run whose freshness deadline has passed. Reads only the state bucket.

The deadline is the arrival plus the SLA; for a replay by hand, the time of its trigger plus the SLA.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.durations import format_duration, format_time
from dedup_clone.freshness.feed_state import describe_live
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.state.current import CurrentFile, Intent
from dedup_clone.state.index import published_records
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import LedgerRecord, count_loads, job_steps
from dedup_clone.state.manifests import Manifests
from dedup_clone.state.retired import RetiredFile
from dedup_clone.state.store import ObjectStore
from dedup_clone.state.streamed_changes import StreamedChanges

ENDED_STATES = ("success", "failed")  # of a run in Airflow
NEXT_STEP = "open the run and read the log of the task that it has reached."


@dataclass(frozen=True)
class LateRun:
    """A publish run that missed its deadline. `arrived_at` is None for a replay by hand.

    `delivery`: None if the run's configuration names none. `started_at`: when the run was queued; if that
    is not known, the time from which Airflow may start the run. `state`: of the run in Airflow, such as `running`.
    """

    feed: str
    run_id: str
    delivery: Delivery | None
    arrived_at: datetime | None
    started_at: datetime
    sla: timedelta
    state: str


def check_late_run(store: ObjectStore, run: LateRun, now: datetime) -> Incident | None:
    """The incident of the late run; None if there is nothing to report.

    That is so if the feed is retired; if the delivery was refused or held, or was published in time by any run; if it
    was never published, and the live generation excludes it or includes a later delivery of its snapshot id; and for a
    replay that has ended.
    """
    if RetiredFile(store, run.feed).read() is not None:
        return None
    generation = CurrentFile(store, run.feed).read().generation
    records = published_records(store, run.feed)
    live = next((r for r in reversed(records) if r.generation == generation), None)
    readers_see = describe_live(live, generation, now)
    if run.arrived_at is None or run.delivery is None:
        return _slow_replay(store, run, now, readers_see)
    layout = FeedLayout(run.feed)
    if store.stat([layout.refusal(run.delivery), layout.held_delivery(run.delivery)]):
        return None
    if _needs_no_publish(store, run, generation):
        return _published_late(run, run.arrived_at, records, readers_see)
    age = format_duration(now - run.arrived_at)
    return Incident(
        IncidentKind.SLA_MISSED,
        Severity.ALERT,
        since=run.arrived_at + run.sla,
        what=(
            f"snapshot {run.delivery.snapshot_id} arrived {format_time(run.arrived_at)}, {age} ago, and is not live; "
            f"the freshness SLA is {format_duration(run.sla)}. Run [{run.run_id}] {_progress(store, run)}."
        ),
        readers_see=readers_see,
        next_step=NEXT_STEP,
        dag_id=f"{run.feed}_publish",
        run_id=run.run_id,
    )


def current_task(store: ObjectStore, feed: str, run_id: str) -> str:
    """The task that a publish run has reached, such as `task [dedup_snapshot]`, as far as that is known.

    It is derived from the objects that the run has written so far, without Airflow.
    """
    intent = CurrentFile(store, feed).read().intent
    if intent is None:
        return "task [resolve_publish], or has ended: no run holds the lease"
    if intent.run_id != run_id:
        return f"task [resolve_publish]: run [{intent.run_id}] of [{intent.dag_id}] holds the lease"
    return f"task {_task_of(store, FeedLayout(feed), intent)}"


def _task_of(store: ObjectStore, layout: FeedLayout, intent: Intent) -> str:
    """The task that the lease holder's run has reached, judged by the attempt's objects and BigQuery jobs."""
    candidate, swap = layout.candidate(intent.attempt), layout.swap_spec(intent.attempt)
    written = {info.name for info in store.stat([candidate, swap])}
    if "swap" in job_steps(intent.jobs):
        return "[swap_target] or [commit_generation]"
    if swap in written:
        return "[approve_accepted]" if intent.waits_for_approval else "[swap_target]"
    streamed = store.read_record(StreamedChanges, layout.streamed_changes(intent.attempt))  # by engine `cdc`
    if count_loads(intent.jobs) or (streamed and streamed.applied_at):
        return "[load_staging] or [check_staging]"
    return "[load_staging]" if candidate in written else "[dedup_snapshot]"


def _progress(store: ObjectStore, run: LateRun) -> str:
    return f"is {run.state} and has reached {current_task(store, run.feed, run.run_id)}"


def _slow_replay(store: ObjectStore, run: LateRun, now: datetime, readers_see: str) -> Incident | None:
    """The incident; None if the replay has ended, because the person who started it has seen the result."""
    if run.state in ENDED_STATES:
        return None
    ago = format_duration(now - run.started_at)
    return Incident(
        IncidentKind.REPLAY_LATE,
        Severity.WARNING,
        since=run.started_at + run.sla,
        what=f"replay [{run.run_id}] was triggered {ago} ago and has not succeeded; it {_progress(store, run)}.",
        readers_see=readers_see,
        next_step=NEXT_STEP,
        subject=run.run_id,
        dag_id=f"{run.feed}_publish",
        run_id=run.run_id,
    )


def _needs_no_publish(store: ObjectStore, run: LateRun, generation: int | None) -> bool:
    """Whether `generation`, the live one, includes the delivery or a later one of its snapshot id, or excludes it."""
    if generation is None or run.delivery is None:
        return False
    manifest = Manifests(store, run.feed).read(generation)
    return run.delivery in manifest.excluded or any(
        d.snapshot_id == run.delivery.snapshot_id and d >= run.delivery for d in manifest.deliveries
    )


def _published_late(
    run: LateRun, arrived_at: datetime, records: list[LedgerRecord], readers_see: str
) -> Incident | None:
    """The incident of a delivery whose first swap was too late; None if it was in time, or was never swapped itself.

    `records`: of the attempts that committed a generation, oldest first.
    """
    swapped = [r.swapped_at for r in records if run.delivery in r.deliveries and r.swapped_at is not None]
    if not swapped or swapped[0] <= arrived_at + run.sla:
        return None
    return Incident(
        IncidentKind.SLA_MISSED,
        Severity.ALERT,
        since=arrived_at + run.sla,
        what=(
            f"run [{run.run_id}] took {format_duration(swapped[0] - arrived_at)} from arrival to swap; "
            f"the freshness SLA is {format_duration(run.sla)}."
        ),
        readers_see=readers_see,
        next_step="none for readers, who see the snapshot now; the phases in the ledger record show what took long.",
        dag_id=f"{run.feed}_publish",
        run_id=run.run_id,
    )
