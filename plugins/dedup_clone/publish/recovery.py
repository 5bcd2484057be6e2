"""Ends attempts that did not end by themselves: commit the attempt if its swap happened, else discard it.

A discarded attempt leaves refusals, held deliveries and a ledger record; its data is deleted, and a rebuild's tables
get back their former layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.errors import (
    BootstrapRefused,
    ConfigurationError,
    ContractViolation,
    DeliveryRefused,
    LostRace,
)
from dedup_clone.publish.attempt_jobs import end_jobs
from dedup_clone.publish.attempts import Form, best_effort, find_check_results, record_refusals
from dedup_clone.publish.commit import commit_attempt, prune
from dedup_clone.publish.declared_form import restore_tables
from dedup_clone.publish.held_deliveries import hold_stopped
from dedup_clone.publish.ledger_record import ended_record
from dedup_clone.publish.parent_generation import export_folder
from dedup_clone.publish.reporting import record_attempt, try_report
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap import complete_swap
from dedup_clone.state.current import Current, Intent, lease_held_error


def recover(services: Services, form: Form) -> None:
    """Free the lease for the run of `form`, if it is held by a dead run, or by this run.

    Raises what `require_no_other_run` and `commit_or_discard` raise.
    """
    intent = require_no_other_run(services, form)
    if intent is not None:
        commit_or_discard(services, intent)


def require_no_other_run(services: Services, form: Form) -> Intent | None:
    """The intent of a dead run, or of the run of `form`; None if the lease is free.

    Raises LeaseHeld while another run is at work, and what `CurrentFile.read_for` raises.
    """
    intent = services.current.read_for(services.environment).intent
    is_other = intent is not None and not intent.is_of(dag_id=form.dag_id, run_id=form.run_id)
    if intent is not None and is_other and services.is_running(intent.dag_id, intent.run_id):
        raise lease_held_error(services.feed.feed, intent)
    return intent


def commit_or_discard(services: Services, intent: Intent) -> bool:
    """Commit the attempt of `intent` if its swap happened, else discard it; True if committed. Safe to repeat.

    A task that only seems dead may still start a job. So first the attempt may record no more jobs, without which it
    starts none. Then `end_jobs` is called: BigQuery rejects a later job of a recorded id.

    Raises LostRace if another run has ended the attempt, what `complete_swap`, `commit_attempt` and `discard` raise,
    and ConfigurationError when this account is not allowed to see the jobs: while nobody knows whether they still run,
    the lease stays.
    """
    intent = _let_end(services, intent)
    with _explain_hidden_jobs(services, intent):
        end_jobs(services, intent)
    live = complete_swap(services, intent)
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


def _let_end(services: Services, intent: Intent) -> Intent:
    """Forbid the attempt to record jobs from now on. Returns its intent with all jobs that it has recorded."""

    def forbid(current: Current) -> Current:
        if current.intent is None or current.intent.attempt != intent.attempt:
            raise LostRace(f"Attempt [{intent.attempt}] was ended by another run: this task tries again by itself.")
        return replace(current, intent=replace(current.intent, is_ending=True))

    return services.current.change(forbid).intent or intent


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


def discard(services: Services, intent: Intent) -> None:
    """End the attempt; target stays as it is. Safe to repeat.

    Without a record of the attempt (a retirement, or a run that died right after it acquired the lease) there is
    nothing to report.
    """
    attempt = services.manifests.find_attempt(intent.attempt)
    if attempt is not None:
        _record(services, intent, attempt)
    if intent.kind is Kind.REBUILD:
        restore_tables(services, intent)
    services.current.release(intent.attempt)
    if attempt is not None:
        try_report(services, attempt.id)
    _delete_data(services, intent)


def _record(services: Services, intent: Intent, attempt: Attempt) -> None:
    """Write refusals, holds and the ledger record."""
    candidate = services.manifests.candidate(attempt.id)
    if candidate is not None and attempt.takes_over is None:  # else the refused delivery is the export of a table
        record_refusals(services, candidate.refused)
    hold_stopped(services, attempt, candidate)
    results = find_check_results(services, attempt.id, "before")
    record = ended_record(services, intent, attempt, candidate)
    record_attempt(services, record, () if results is None else (results,))


def _delete_data(services: Services, intent: Intent) -> None:
    """Delete the attempt's files, exported ones too, its incoming table, and data that earlier attempts left.

    The files of a candidate that a replay may use again stay. What cannot be deleted, for example while another run
    holds the lease, is deleted after the next attempt, but the incoming table expires.
    """
    attempt, layout = intent.attempt, services.layout
    with best_effort(services, f"data of attempt [{attempt}] is left until the next attempt ends"):
        for name in (layout.approved_keys(attempt), layout.changes_folder(attempt), export_folder(services, attempt)):
            services.store.delete_prefix(name)
        services.warehouse.alterations.drop(services.names.of_attempt(attempt).incoming_table)
        prune(services)


def end_if_all_refused(services: Services, attempt: str) -> None:
    """If the dedup job refused every delivery, record the refusals, end the attempt, and raise DeliveryRefused.

    Raises BootstrapRefused instead when the job refused the rows that a bootstrap or rebuild takes over;
    ContractViolation when the job left no candidate; LeaseLost when it refused every delivery, but the attempt has
    ended already.
    """
    candidate = services.manifests.candidate(attempt)
    if candidate is None:
        raise ContractViolation(
            f"Attempt [{attempt}] has no candidate manifest although its dedup job ended well: "
            f"clear the run from its first task."
        )
    if candidate.manifest is not None:
        return
    intent = services.current.require_intent(attempt)
    discard(services, intent)
    if intent.kind in (Kind.BOOTSTRAP, Kind.REBUILD):
        reasons = " ".join(refused.reason for refused in candidate.refused)
        raise BootstrapRefused(f"Rows of the table were refused: {reasons}")
    reasons = "\n  ".join(f"[{r.delivery.name}] {r.reason}" for r in candidate.refused)
    raise DeliveryRefused(f"Every delivery was refused; target is unchanged:\n  {reasons}")
