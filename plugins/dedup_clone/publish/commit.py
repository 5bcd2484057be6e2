"""Commit task: checks target after the swap, writes the generation's records, and commits the generation by CURRENT.

Then it updates the ledger table, and loads changes into `FEED_changes`. All inputs are read from state, so
that the recovery of a dead run can use the same code.

Last, it deletes the data and attempt folders that are no longer needed.
"""

from __future__ import annotations

from dedup_clone.checks import partition_checks, table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults
from dedup_clone.checks.row_checks import clustering_hint
from dedup_clone.contract.attempt import Attempt, Swap
from dedup_clone.contract.errors import ContractViolation, OutcomeUnknown
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.attempt_jobs import end_jobs
from dedup_clone.publish.attempts import (
    SwapSpec,
    find_check_results,
    find_swap,
    record_refusals,
    save_check_results,
    try_read,
)
from dedup_clone.publish.changes_table import record_changes, try_load_changes
from dedup_clone.publish.early_checks import check_policies
from dedup_clone.publish.erasure_records import last_erasure_generation, record_erasure
from dedup_clone.publish.held_deliveries import kept_folders
from dedup_clone.publish.ledger_record import published_record
from dedup_clone.publish.reporting import record_attempt, try_report
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.layout import names_up_to
from dedup_clone.state.ledger import CHANGES, LedgerRecord, Outcome, ReportingBacklog
from dedup_clone.warehouse.metadata import Observation


def commit_attempt(services: Services, attempt: str) -> tuple[LedgerRecord, CheckResults]:
    """Commit the attempt, then update the ledger table, and load waiting changes into `FEED_changes`.

    Returns the attempt's ledger record and the results of the checks after the swap. An attempt that is committed
    already (the task was retried) is not committed again. When the tables cannot be updated, a warning is logged
    and nothing is raised. Raises LostRace when the attempt recorded a job meanwhile, LeaseLost when it has ended.
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
    """Check target, which must hold the intent's generation, end the jobs, and commit. Safe to repeat.

    Writes the results of the checks, the manifest, refusals of deliveries, what an erasure did, the list of files with
    changes, the ledger's record, the end of holds, and last CURRENT.

    Failed checks do not prevent the commit, because the swap has happened; the caller raises CheckFailed for them.
    Raises OutcomeUnknown when target holds another generation, LookupError when target does not exist,
    ContractViolation when records of the attempt are absent, LostRace when the attempt recorded a job meanwhile.
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
    jobs = end_jobs(services, intent)
    services.manifests.commit(manifest, candidate.file_list_uri)
    record_refusals(services, candidate.refused)
    record_erasure(services, attempt, candidate, manifest)
    change_rows = record_changes(services, intent, candidate)
    record = published_record(services, intent, attempt, candidate, manifest, swap, target, change_rows, jobs)
    consequence = f"the reports on attempt [{intent.attempt}] lack the checks before its swap"
    before = try_read(services, consequence, lambda: find_check_results(services, intent.attempt, "before"))
    record_attempt(services, record, (results,) if before is None else (before, results))
    services.arrivals.end_hold(manifest.deliveries)
    services.current.commit(intent, manifest.digest)  # last: a recovery before it repeats all of the above
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
            f"swapped: run `python -m deploy recover` (docs/runbook.md, lost records), then retry."
        )
    return attempt, candidate, candidate.manifest, swap


def _check_target(
    services: Services, manifest: Manifest, swap: SwapSpec, target: Observation
) -> tuple[CheckResult, ...]:
    retention_days = manifest.table.retention_days
    is_clone = table_checks.check_target_is_clone(target.table, services.feed.staging, swap.checked_at)
    return (
        *([is_clone] if swap.way is Swap.CLONE else []),
        table_checks.check_target_labels(target.table, manifest.generation, swap.manifest),
        partition_checks.check_rows("target_rows", manifest, target),
        partition_checks.check_expiration("target_expiration", target.table, retention_days),
        partition_checks.check_overdue_partitions(target, retention_days),
        *check_policies(services, "target_policies", services.feed.target),
    )


# The committed generation and its parent. Within BigQuery's time travel, a rollback to an older one needs no files.
GENERATIONS_WITH_DATA = 2
# Attempt folders stay for this many generation numbers, counted back from the live generation's.
GENERATIONS_WITH_ATTEMPT_FOLDERS = 100


def prune(services: Services) -> list[str]:
    """Delete all data folders except those of the committed generation and its parent; returns the deleted folders.

    Folders of a running attempt stay. A rollback uses no other folders than these, and the next live generation needs
    none of those that are deleted, so runs that start meanwhile do not matter. Attempt folders (request, check results)
    of the last GENERATIONS_WITH_ATTEMPT_FOLDERS generations stay, and changes until they are loaded into
    `FEED_changes`. No such folder of a generation before the last erasure stays.
    """
    current = services.current.read()
    obsolete = _data_of_ended_attempts(services, current)
    if current.generation is not None:
        obsolete += _obsolete_before(services, current.generation)
    if services.current.read() != current:  # a replay may have published what was kept for it
        return prune(services)
    for folder in obsolete:
        count = services.store.delete_prefix(folder)
        services.log(f"pruned [{folder}], {count} objects", generation=current.generation)
    return obsolete


def _data_of_ended_attempts(services: Services, current: Current) -> list[str]:
    """The data folders of the failed attempts since the live generation; none while a run holds the lease.

    The folders of `kept_folders` are left out, because a replay may use them. If no generation is live any more, as
    after a recovery without records, no folder is returned.
    """
    generation = current.generation
    if current.intent is not None or (generation is None and services.manifests.generations()):
        return []
    folders = services.store.folders(services.layout.data)
    live = None if generation is None else services.manifests.read(generation)
    kept = {*names_up_to(folders, generation or 0), *kept_folders(services, live)}
    return [folder for folder in names_up_to(folders, current.last_generation) if folder not in kept]


def _obsolete_before(services: Services, generation: int) -> list[str]:
    """The folders of data, attempts and changes, up to the live `generation`, that nobody needs any more."""
    erasure_generation = last_erasure_generation(services, generation)
    needed = _needed_folders(services, generation, erasure_generation)
    folders = names_up_to(services.store.folders(services.layout.data), generation)
    obsolete = [folder for folder in folders if not any(name.startswith(folder) for name in needed)]
    last_obsolete = max(generation - GENERATIONS_WITH_ATTEMPT_FOLDERS, erasure_generation - 1)
    obsolete += names_up_to(services.store.folders(services.layout.attempts), last_obsolete)
    return obsolete + _obsolete_changes(services, generation, erasure_generation)


def _obsolete_changes(services: Services, generation: int, erasure_generation: int) -> list[str]:
    """Return the folders of changes, up to `generation`, that no load into `FEED_changes` needs any more.

    `erasure_generation`: that of the last erasure, 0 without one; changes of earlier generations are not loaded any
    more.
    """
    pending = [rows.attempt for rows in ReportingBacklog(services.store, CHANGES).waiting(services.feed.feed)]
    needed = {
        services.layout.changes_folder(a) for a in pending if a not in names_up_to(pending, erasure_generation - 1)
    }
    folders = names_up_to(services.store.folders(services.layout.changes), generation)
    return [folder for folder in folders if folder not in needed]


def _needed_folders(services: Services, generation: int | None, erasure_generation: int) -> set[str]:
    """Return the data folders of the generation and its parent, relative to the state bucket's URI.

    A parent from before the last erasure is not needed.
    """
    needed: set[str] = set()
    for _ in range(GENERATIONS_WITH_DATA):
        if generation is None or generation < erasure_generation:
            break
        manifest = services.manifests.read(generation)
        if manifest.data_folder is not None:
            needed.add(manifest.data_folder.removeprefix(services.store.uri("")))
        generation = manifest.parent
    return needed
