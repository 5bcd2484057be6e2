"""Heals what a dead run left: completes its commit when its swap happened, else discards its attempt."""

from __future__ import annotations

from dedup_clone.checks.tables import GENERATION_LABEL
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.discard import discard
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent, lease_held


def heal(services: Services, *, dag_id: str, run_id: str) -> None:
    """Free the lease of a run that is dead or waits for approval, or an earlier attempt of this run.

    Raises LeaseHeld for a run at work, LostRace for one that was approved just now.
    """
    intent = services.current.read().intent
    if intent is None:
        return
    own = (intent.dag_id, intent.run_id) == (dag_id, run_id)
    if not own and services.is_running(intent.dag_id, intent.run_id):
        if not intent.waits_for_approval:
            raise lease_held(services.feed.feed, intent)
        services.current.take_over(intent, dag_id=dag_id, run_id=run_id)
        services.fact(f"run [{intent.run_id}] waits for approval and gives way", generation=intent.generation)
    finish_or_discard(services, intent)


def finish_or_discard(services: Services, intent: Intent) -> bool:
    """End `intent` as its swap says; True when it was committed. Safe to do twice.

    A recorded job that was never made may still be made, by a task that everybody takes for dead: its id is occupied
    first, so that BigQuery refuses it from now on.
    """
    for job_id in intent.jobs:
        services.warehouse.occupy_job_id(job_id)
    services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    target = services.warehouse.table(services.feed.target)
    live = None if target is None else target.labels.get(GENERATION_LABEL)
    if live == str(intent.generation):
        services.fact(f"heals run [{intent.run_id}]: its swap happened, commits it", generation=intent.generation)
        commit_attempt(services, intent.attempt)
        return True
    discard(services, intent)
    services.fact(
        f"discards attempt [{intent.attempt}] of run [{intent.run_id}]: target keeps generation {live or 'none'}",
        generation=intent.generation,
    )
    return False
