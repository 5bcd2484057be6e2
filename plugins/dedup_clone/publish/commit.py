"""Commit task: checks target after the swap, writes the generation's records, and commits the generation by CURRENT.

Then it updates the ledger table, and loads changes into `FEED_changes`. All inputs are read from state, so
that the recovery of a dead run can use the same code.
"""

from __future__ import annotations

from dedup_clone.checks import partition_checks, table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults
from dedup_clone.checks.manifest_checks import clustering_hint
from dedup_clone.checks.option_checks import check_target_options_set
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ContractViolation, OutcomeUnknown
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.early_checks import check_policies
from dedup_clone.publish.records.attempt_records import (
    SwapSpec,
    find_check_results,
    find_swap,
    record_refusals,
    save_check_results,
)
from dedup_clone.publish.records.best_effort import try_read
from dedup_clone.publish.records.changes_table import record_changes, try_load_changes
from dedup_clone.publish.records.erasure_records import record_erasure
from dedup_clone.publish.records.published_record import published_record
from dedup_clone.publish.records.reporting_tables import record_attempt, try_report
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.warehouse.metadata import Observation


def commit_attempt(services: Services, attempt: str) -> tuple[LedgerRecord, CheckResults]:
    """Commit the attempt, then update the ledger table, and load waiting changes into `FEED_changes`.

    Returns the attempt's ledger record and the results of the checks after the swap. An attempt that is committed
    already (the task was retried) is not committed again. When the tables cannot be updated, a warning is logged
    and nothing is raised. Raises LostRace when the attempt holds no lease and was never committed.
    """
    intent = services.current.read().intent
    record = None if intent and intent.attempt == attempt else services.ledger.read(attempt)
    if record is not None and record.outcome is Outcome.PUBLISHED:
        results = find_check_results(services, attempt, "after") or CheckResults("after", ())
    else:
        record, results = commit_generation(services, services.current.require_intent(attempt))
    try_report(services, attempt)
    try_load_changes(services)
    return record, results


def commit_generation(services: Services, intent: Intent) -> tuple[LedgerRecord, CheckResults]:
    """Check target, which must hold the intent's generation, and commit that generation. Safe to repeat.

    Writes the results of the checks, the manifest, refusals of deliveries, what an erasure did, the list of files with
    changes, the ledger's record, the end of holds, and last CURRENT.

    Failed checks do not prevent the commit, because the swap has happened; the caller raises CheckFailed for them.
    Raises OutcomeUnknown when target holds another generation, LookupError when target does not exist,
    ContractViolation when records of the attempt are absent.
    """
    attempt, candidate, manifest, swap = _read_records(services, intent.attempt)
    target = services.warehouse.observe(services.names, services.feed.target)
    labelled = table_checks.labelled_generation(target.table)
    if labelled != swap.generation:
        raise OutcomeUnknown(
            f"Target [{services.feed.target}] holds generation [{labelled}], expected [{swap.generation}]: "
            f"the swap did not happen or was replaced. Clear the run from its first task."
        )
    results = CheckResults("after", _check_target(services, manifest, swap, target))
    save_check_results(services, attempt, results)
    services.manifests.commit(manifest, candidate.file_list_uri)
    record_refusals(services, candidate.refused, run_id=attempt.run_id)
    record_erasure(services, attempt, candidate, manifest)
    change_rows = record_changes(services, intent, candidate)
    record = published_record(services, intent, attempt, candidate, manifest, swap, target, change_rows)
    consequence = f"the reports on attempt [{intent.attempt}] lack the checks before its swap"
    before = try_read(services, consequence, lambda: find_check_results(services, intent.attempt, "before"))
    record_attempt(services, record, (results,) if before is None else (before, results))
    services.arrivals.end_hold(manifest.deliveries)
    services.current.commit(intent.attempt, manifest.digest)  # last: a recovery before it repeats all of the above
    services.log(
        f"committed: {record.rows} rows, {record.new_rows} new, "
        f"{'changed not compared' if record.changed_rows is None else f'{record.changed_rows} changed'}, "
        f"{record.kept_rows} retained, " + ("no new snapshot" if record.lag_s is None else f"lag {record.lag_s:.1f} s"),
        snapshot_id=record.snapshot_id,
        generation=record.generation,
    )
    hint = clustering_hint(manifest)
    if hint is not None:
        services.log(hint, snapshot_id=record.snapshot_id, generation=record.generation)
    return record, results


def _read_records(services: Services, attempt_id: str) -> tuple[Attempt, Candidate, Manifest, SwapSpec]:
    attempt, candidate = services.manifests.find_attempt(attempt_id), services.manifests.candidate(attempt_id)
    swap = find_swap(services, attempt_id)
    if attempt is None or candidate is None or candidate.manifest is None or swap is None:
        folder = services.store.uri(services.layout.attempt_folder(attempt_id))
        raise ContractViolation(
            f"Attempt [{attempt_id}] lacks attempt.json, candidate.json or swap.json in [{folder}] although it was "
            f"swapped: run `make recover` (docs/runbook.md, lost records), then retry."
        )
    return attempt, candidate, candidate.manifest, swap


def _check_target(
    services: Services, manifest: Manifest, swap: SwapSpec, target: Observation
) -> tuple[CheckResult, ...]:
    retention_days = manifest.table.retention_days
    return (
        table_checks.check_target_is_clone(target.table, services.feed.staging, swap.checked_at),
        table_checks.check_target_labels(target.table, manifest.generation, swap.manifest),
        partition_checks.check_rows("target_rows", manifest, target),
        partition_checks.check_expiration("target_expiration", target, retention_days),
        partition_checks.check_overdue_partitions(target, retention_days),
        partition_checks.check_ending_partitions(target, retention_days),
        check_target_options_set(target.table.options, swap.options),
        *check_policies(services, "target_policies", services.feed.target),
    )
