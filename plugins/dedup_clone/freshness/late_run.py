"""Judges one publish run whose deadline has passed, from the state bucket alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.standing import standing_task
from dedup_clone.freshness.words import clock, seen, span
from dedup_clone.state.current import CurrentFile
from dedup_clone.state.index import published_records
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.manifests import Manifests
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class LateRun:
    """A run that has not ended in time, and its state in Airflow. `arrived_at` is None for a replay by hand."""

    feed: str
    run_id: str
    delivery: Delivery | None
    arrived_at: datetime | None
    started_at: datetime
    promise: timedelta
    state: str


def judge_late_run(store: ObjectStore, run: LateRun, now: datetime) -> Incident | None:
    """None when readers lost nothing: the delivery went live in time by another run, or was refused."""
    generation = CurrentFile(store, run.feed).read().generation
    records = published_records(store, run.feed)
    live = next((r for r in reversed(records) if r.generation == generation), None)
    readers = seen(live, generation, now)
    if run.arrived_at is None or run.delivery is None:
        return _slow_replay(run, now, readers, _stands_at(store, run))
    if store.read(FeedLayout(run.feed).refusal(run.delivery)) is not None:
        return None
    if _accounted(store, run, generation):
        return _late_but_live(run, run.arrived_at, records, readers)
    return Incident(
        Kind.PROMISE_MISSED,
        Severity.ALERT,
        since=run.arrived_at + run.promise,
        what=(
            f"snapshot {run.delivery.snapshot_id} arrived {clock(run.arrived_at)}, {span(now - run.arrived_at)} ago, "
            f"and is not live; promised are {span(run.promise)}. Run [{run.run_id}] {_stands_at(store, run)}."
        ),
        readers_see=readers,
        next_step="open the run and read the log of the task it stands at.",
    )


def _stands_at(store: ObjectStore, run: LateRun) -> str:
    return f"is {run.state} and stands at {standing_task(store, run.feed, run.run_id)}"


def _slow_replay(run: LateRun, now: datetime, readers: str, stands_at: str) -> Incident:
    return Incident(
        Kind.REPLAY_LATE,
        Severity.WARNING,
        since=run.started_at + run.promise,
        what=(
            f"replay [{run.run_id}] was triggered {span(now - run.started_at)} ago and has not succeeded; "
            f"it {stands_at}."
        ),
        readers_see=readers,
        next_step="open the run and read the log of the task it stands at.",
        subject=run.run_id,
    )


def _accounted(store: ObjectStore, run: LateRun, generation: int | None) -> bool:
    """The generation has the delivery, a later one of its id, or a rollback's word that it stays out."""
    if generation is None or run.delivery is None:
        return False
    manifest = Manifests(store, run.feed).read(generation)
    return run.delivery in manifest.excluded or any(
        d.snapshot_id == run.delivery.snapshot_id and d >= run.delivery for d in manifest.deliveries
    )


def _late_but_live(run: LateRun, arrived_at: datetime, records: list[LedgerRecord], readers: str) -> Incident | None:
    swapped = [r.swapped_at for r in records if run.delivery in r.deliveries and r.swapped_at is not None]
    if not swapped or swapped[0] <= arrived_at + run.promise:
        return None
    lag = swapped[0] - arrived_at
    return Incident(
        Kind.PROMISE_MISSED,
        Severity.ALERT,
        since=arrived_at + run.promise,
        what=f"the run [{run.run_id}] took {span(lag)} from arrival to swap; promised are {span(run.promise)}.",
        readers_see=readers,
        next_step="none for readers, who have it now; read the phases in the ledger record to see what took long.",
    )
