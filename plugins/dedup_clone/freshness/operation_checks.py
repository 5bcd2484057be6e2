"""Checks what moves deliveries to target: DAGs, publish runs, the lease, BigQuery jobs, and the deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import listed, next_step_after_checks, stopped_by
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, format_duration, format_time
from dedup_clone.state.current import restore_records

JOB_PENDING = "job_pending"  # the subject of an incident that only BigQuery tells
# A job may be PENDING for this share of the SLA: ten minutes of an hour, which is about the reserve in the latency
# budget (docs/costs-and-limits.md).
MAX_PENDING_SHARE = 1 / 6
# The watch DAG is idle if it has had no run for so long, or has not registered a marker for so long. Normally the next
# run starts within seconds, and even the marker of an old snapshot is found within five minutes.
IDLE_AFTER = timedelta(minutes=10)


def check_dags(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The watch and publish DAGs must be unpaused.

    The watch DAG must also have run lately, and registered what has landed, and its last run must not have failed. Its
    active run is sound once its task waits for a marker: at most one run is active, so the failed one came before.
    """

    def incident(dag_id: str, cause: str, since: datetime, what: str, next_step: str) -> Incident:
        return Incident(IncidentKind.STOPPED, Severity.ALERT, since, what, next_step, subject=cause, dag_id=dag_id)

    watch, publish = state.watch_dag, f"{state.feed}_publish"
    if watch is not None and watch.is_paused:
        what = f"DAG [{watch.dag_id}] is paused: no delivery is registered."
        step = "unpause it; deliveries that have landed meanwhile are found."
        yield incident(watch.dag_id, "watch_paused", now, what, step)
    elif watch is not None:
        failed, succeeded = watch.failed_at, watch.succeeded_at
        if failed is not None and (succeeded is None or failed > succeeded) and not watch.is_deferred:
            what = f"the last run of DAG [{watch.dag_id}] failed at {format_time(failed)}; the next one tries again."
            yield incident(watch.dag_id, "watch_failing", failed, what, "read the log of notice_delivery.")
        ended = [] if watch.has_active_run else [end for end in (failed, succeeded) if end is not None]
        landed = [waiting.arrived_at for waiting in state.waiting if not waiting.is_registered]
        since = min([*landed, *([max(ended)] if ended else [])], default=now)
        if now - since > IDLE_AFTER:
            run = "has an active run" if watch.has_active_run else "has no run"
            what = f"DAG [{watch.dag_id}] {run}, and has registered nothing since {format_time(since)}."
            step = (
                "see whether scheduler, DAG processor and triggerer are healthy, whether the DAG has an import error, "
                "and whether the log of notice_delivery names listings that failed."
            )
            yield incident(watch.dag_id, "watch_idle", since, what, step)
    if state.publish_is_paused:
        what = f"DAG [{publish}] is paused: deliveries are registered and wait."
        yield incident(publish, "publish_paused", now, what, "unpause it; the runs that wait start.")


def check_publish_runs(now: datetime, state: FeedState) -> Iterator[Incident]:
    """No waiting delivery may have a failed run that is not repeated, or that was repeated several times in vain."""
    run = state.failed_run
    if run is None or not run.reason:
        return
    outlook = "no further run is started for it"
    if run.is_repeated:
        outlook = "a further run is at work"
    elif run.repeat_at is not None:
        outlook = f"a further run is started at {format_time(run.repeat_at)}"
    failed = state.stopped.failed if state.stopped else ()
    next_step = next_step_after_checks(failed)
    if not next_step:
        next_step = "read the log of the failed task, correct what it names, then clear the run from its first task."
    yield Incident(
        IncidentKind.PUBLISH_FAILED,
        Severity.ALERT,
        since=run.ended_at,
        what=(
            f"run [{run.run_id}] did not publish delivery [{run.delivery.name}], and {outlook}: {run.reason}."
            + "".join(f" {result.evidence}." for result in failed)
        ),
        next_step=next_step,
        dag_id=f"{state.feed}_publish",
        run_id=run.run_id,
    )


def check_records(now: datetime, state: FeedState) -> Iterator[Incident]:
    """CURRENT and the ledger record of the live generation must exist."""
    if state.current_is_lost:
        yield Incident(
            IncidentKind.STOPPED,
            Severity.ALERT,
            since=now,
            what="CURRENT is gone: nobody knows which generation is live, and nothing can be published.",
            next_step=f"pause the feed's watch and publish DAGs. {restore_records(state.feed)}",
            subject="records_lost",
        )
    elif state.live is None and state.current.generation is not None:
        yield Incident(
            IncidentKind.REPORTING,
            Severity.WARNING,
            since=now,
            what=f"the ledger record of live generation {state.current.generation} is gone or damaged.",
            next_step="copy its last version back (docs/runbook.md, a record is lost or damaged). The next publish "
            "ends this, too.",
            subject="records_lost",
        )


def check_lease(now: datetime, state: FeedState) -> Iterator[Incident]:
    """A lease may be held for as long as the SLA, and for twice as long if the run that holds it is still running.

    A run that ended with the lease is reported at once if no delivery waits, as then no run comes to recover its
    attempt.
    """
    intent, allowed = state.current.intent, state.sla * 2
    if not state.lease_holder_running:
        allowed = state.sla if any(w.is_registered for w in state.waiting) else timedelta(0)
    if intent is None or now - intent.taken_at <= allowed:
        return
    holder = f"run [{intent.run_id}] of [{intent.dag_id}] ({intent.kind}, generation {intent.generation})"
    consequence = "is running: nothing else can be published"
    if not state.lease_holder_running:
        consequence = "is not running any more: nothing is published until another run recovers its attempt"
    next_step = "none if a delivery is due soon: its run recovers the attempt. Otherwise replay the live snapshot."
    if state.lease_holder_running:
        next_step = "read the log of that run; if it hangs, mark it as failed: the next run recovers the attempt."
    elif state.uncommitted is not None:
        consequence = "ended after its swap: readers see its generation, and no record tells of it"
        next_step = "clear that run from its first task, which commits the generation; so does the next run."
    held = format_duration(now - intent.taken_at)
    yield Incident(
        IncidentKind.STOPPED,
        Severity.ALERT,
        since=intent.taken_at + allowed,
        what=f"{holder} has held the lease for {held} and {consequence}.",
        next_step=next_step,
        subject="lease_held",
        dag_id=intent.dag_id,
        run_id=intent.run_id,
    )


def check_pending_job(now: datetime, state: FeedState) -> Iterator[Incident]:
    """The BigQuery job of the running step must start before its waiting endangers the SLA."""
    job, allowed = state.pending_job, state.sla * MAX_PENDING_SHARE
    if job is None or now - job.since <= allowed:
        return
    waited = now - job.since
    if job.is_statement:
        next_step = "see which DML statements on staging run or wait, and stop those (docs/runbook.md, job_pending)."
    else:
        next_step = "see whether jobs wait for slots or for the free pool (docs/runbook.md, job_pending)."
    yield Incident(
        IncidentKind.STOPPED,
        Severity.WARNING,
        since=job.since + allowed,
        what=(
            f"BigQuery job [{job.job_id}] has been PENDING for {format_duration(waited)}, "
            f"{waited / state.sla:.0%} of the freshness SLA: nothing is wrong with the publish, but the job waits."
        ),
        next_step=next_step,
        subject=JOB_PENDING,
    )


def check_deliveries(now: datetime, state: FeedState) -> Iterator[Incident]:
    """One incident for each held delivery, each open refusal, and each invalid marker."""
    for held in state.held:
        stopped = held.stopped
        together = [f"[{delivery.name}]" for delivery in stopped.deliveries if delivery != held.delivery]
        yield Incident(
            IncidentKind.PUBLISH_FAILED,
            Severity.ALERT,
            since=held.held_at,
            what=(
                f"delivery [{held.delivery.name}] of snapshot {held.delivery.snapshot_id} is held, and later ones are "
                f"published without it: {stopped_by(stopped.failed)}"
                + (f", together with {listed(together)}" if together else "")
                + "."
            ),
            next_step=next_step_after_checks(stopped.failed),
            subject=f"held-{held.delivery.name}",
            dag_id=stopped.dag_id,
            run_id=stopped.run_id,
        )
    for refusal in state.refused:
        yield Incident(
            IncidentKind.REFUSED,
            Severity.ALERT,
            since=refusal.refused_at,
            what=refusal.reason,  # it names the delivery
            next_step="tell the producer; a corrected delivery of the snapshot, or the next one, is published.",
            subject=refusal.delivery.name,
        )
    for marker in state.invalid_markers:
        yield Incident(
            IncidentKind.REFUSED,
            Severity.WARNING,
            since=marker.created_at,
            what=marker.text,
            next_step="tell the producer; land the snapshot in a folder of the right name, delete the marker.",
            subject=f"marker-{marker.generation}",
        )
