"""Recovery after a failed task or a dead run: commit the attempt if its swap happened, else discard the attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dedup_clone.checks.table_checks import labelled_generation
from dedup_clone.contract.errors import ConfigurationError, FeedHeldElsewhere
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.discard import discard
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent, lease_held_error


def recover(services: Services, *, dag_id: str, run_id: str, is_replay: bool = False) -> None:
    """Free the lease for this run, if it is held by a dead run, by a run that waits for approval, or by this run.

    Raises LeaseHeld while another run is at work, FeedHeldElsewhere when another environment publishes the feed,
    LostRace when the swap of the waiting run was just approved, and what `commit_or_discard` raises. A replay ends no
    run that waits for approval, because nothing is urgent about it: ConfigurationError is raised instead.
    """
    current = services.current.read()
    if refusal := current.refusal(services.environment):
        raise FeedHeldElsewhere(refusal)
    intent = current.intent
    if intent is None:
        return
    if not intent.is_of(dag_id=dag_id, run_id=run_id) and services.is_running(intent.dag_id, intent.run_id):
        if not intent.waits_for_approval:
            raise lease_held_error(services.feed.feed, intent)
        if is_replay:
            raise ConfigurationError(
                f"Run [{intent.run_id}] of [{intent.dag_id}] waits for an approval, which this replay would end: "
                f"nothing was done. Answer it first (Required Actions), then clear this run from its first task."
            )
        services.current.take_over_lease(intent, dag_id=dag_id, run_id=run_id)
        services.log(f"run [{intent.run_id}] waits for approval and yields the lease", generation=intent.generation)
    commit_or_discard(services, intent)


def commit_or_discard(services: Services, intent: Intent) -> bool:
    """Commit the attempt of `intent` if its swap happened, else discard it; True if committed. Safe to repeat.

    A task that only seems dead may still start a job that it recorded. So every recorded id that has no job is fenced
    first, and BigQuery rejects a later job of that id. Raises what `commit_attempt` and `discard` raise, and
    ConfigurationError when this account is not allowed to see the jobs: while nobody knows whether they still run, the
    lease stays.
    """
    with _explain_hidden_jobs(services, intent):
        for job_id in intent.jobs:
            services.warehouse.fence_job_id(job_id)
        services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    live = labelled_generation(services.warehouse.table(services.feed.target))
    if live == str(intent.generation):
        services.log(f"recovering run [{intent.run_id}]: commits its swap", generation=intent.generation)
        commit_attempt(services, intent.attempt)
        return True
    discard(services, intent)
    services.log(
        f"discarded attempt [{intent.attempt}] of run [{intent.run_id}]: target keeps generation {live or 'none'}",
        generation=intent.generation,
    )
    return False


@contextmanager
def _explain_hidden_jobs(services: Services, intent: Intent) -> Iterator[None]:
    """Raise ConfigurationError when BigQuery denies access to the attempt's jobs in the `with` block."""
    from google.api_core.exceptions import Forbidden

    try:
        yield
    except Forbidden as error:
        if not any(item.get("reason") == "accessDenied" for item in error.errors):
            raise  # an exceeded quota has the same status
        raise ConfigurationError(
            f"Attempt [{intent.attempt}] of run [{intent.run_id}] has BigQuery jobs that this environment's account "
            f"may not see, so nobody knows whether they still change staging or target: {error.message}. Grant "
            f"the account roles/bigquery.resourceViewer on project [{services.names.project}], then clear the run."
        ) from error
