"""Judges those who do the work: the DAGs, the lease, and deliveries that could not be used."""

from __future__ import annotations

from datetime import datetime, timedelta

from dedup_clone.freshness.facts import DagActivity, Facts
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.words import clock, readers_see, span

IDLE_AFTER = timedelta(minutes=10)  # the watch DAG starts its next run within seconds


def dags_at_work(now: datetime, facts: Facts) -> list[Incident]:
    """Both DAGs unpaused; the watch DAG with a run that waits, and its last run not failed."""
    incidents = []
    if facts.watch is not None:
        incidents += _watch(now, facts, facts.watch)
    if facts.publish is not None and facts.publish.paused:
        what = f"DAG [{facts.publish.dag_id}] is paused: deliveries are noticed and wait."
        incidents.append(_dag(now, facts, Kind.PUBLISH_PAUSED, now, what, "unpause it; the runs that wait start."))
    return incidents


def _watch(now: datetime, facts: Facts, watch: DagActivity) -> list[Incident]:
    name = watch.dag_id
    if watch.paused:
        what = f"DAG [{name}] is paused: no delivery is noticed."
        return [_dag(now, facts, Kind.WATCH_PAUSED, now, what, "unpause it; what has landed meanwhile is found.")]
    failed, succeeded = watch.failed_at, watch.succeeded_at
    incidents = []
    if failed is not None and (succeeded is None or failed > succeeded):
        what = f"the last run of DAG [{name}] failed at {clock(failed)}; the next one tries again."
        incidents.append(_dag(now, facts, Kind.WATCH_FAILING, failed, what, "read the log of notice_delivery."))
    ended = max((end for end in (failed, succeeded) if end is not None), default=None)
    if not watch.at_work and _idle(now, facts, ended):
        since = "ever" if ended is None else f"since {clock(ended)}"
        what = f"DAG [{name}] has no run and had none {since}: no delivery is noticed."
        step = "see whether scheduler and DAG processor are healthy, and whether the DAG has an import error."
        incidents.append(_dag(now, facts, Kind.WATCH_IDLE, ended or now, what, step))
    return incidents


def _idle(now: datetime, facts: Facts, ended: datetime | None) -> bool:
    """A DAG that never ran is new, unless a marker waits for it."""
    if ended is not None:
        return now - ended > IDLE_AFTER
    return any(not w.registered and now - w.arrived_at > IDLE_AFTER for w in facts.waiting)


def _dag(now: datetime, facts: Facts, kind: Kind, since: datetime, what: str, next_step: str) -> Incident:
    return Incident(kind, Severity.ALERT, since, what, readers_see(facts, now), next_step)


def lease_free_in_time(now: datetime, facts: Facts) -> list[Incident]:
    """Nobody holds the lease for longer than a publish may take; a run at work is given that twice.

    One that waits for an approval holds nobody up: it gives way.
    """
    intent, allowed = facts.current.intent, facts.promise * (2 if facts.holder_runs else 1)
    if intent is None or intent.waits_for_approval or now - intent.taken_at <= allowed:
        return []
    run = f"run [{intent.run_id}] of [{intent.dag_id}]"
    state = "is at work" if facts.holder_runs else "is not running any more"
    return [
        Incident(
            Kind.LEASE_HELD,
            Severity.ALERT,
            since=intent.taken_at + allowed,
            what=(
                f"{run} ({intent.kind}, generation {intent.generation}) holds the lease since "
                f"{span(now - intent.taken_at)} and {state}: "
                f"nothing else can be published."
            ),
            readers_see=readers_see(facts, now),
            next_step=(
                "read its log; mark it failed if it hangs: the next run heals what it left."
                if facts.holder_runs
                else "nothing if a delivery is due soon, whose run heals; else replay the live snapshot, which heals."
            ),
        )
    ]


def deliveries_usable(now: datetime, facts: Facts) -> list[Incident]:
    """Deliveries that were refused since the last swap, and markers that start no publish: one incident each."""
    refused = [
        Incident(
            Kind.DELIVERY_REFUSED,
            Severity.ALERT,
            since=item.refused_at,
            what=f"delivery [{item.delivery.name}] was refused and set aside: {item.reason}",
            readers_see=readers_see(facts, now),
            next_step="tell the producer; a corrected delivery of the snapshot, or the next one, is published.",
            subject=item.delivery.name,
        )
        for item in facts.refused
    ]
    misnamed = [
        Incident(
            Kind.MARKER_MISNAMED,
            Severity.WARNING,
            since=item.created_at,
            what=item.text,
            readers_see=readers_see(facts, now),
            next_step="tell the producer; land the snapshot in a folder of the right name, delete the marker.",
            subject=str(item.generation),
        )
        for item in facts.misnamed
    ]
    return refused + misnamed
