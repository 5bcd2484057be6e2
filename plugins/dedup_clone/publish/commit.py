"""Commit task: check target after the swap, write manifest and ledger, commit by CURRENT, then update page and tables.

All inputs are read from state, so that the recovery of a dead run can use the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dedup_clone.checks import partition_checks, table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults
from dedup_clone.checks.clustering_hint import clustering_hint
from dedup_clone.checks.option_checks import declared_options_set
from dedup_clone.checks.share_checks import shares
from dedup_clone.contract.errors import ContractViolation, OutcomeUnknown
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.erasure.erasure_records import record_erasure
from dedup_clone.publish.policy_checks import check_policies
from dedup_clone.publish.records.attempt_records import (
    find_check_results,
    find_swap,
    read_check_results,
    record_refusals,
    save_check_results,
)
from dedup_clone.publish.records.changes_table import count_changes, record_changes, try_load_changes
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.records.publish_costs import cost_of, merge_input, with_spark
from dedup_clone.publish.records.publish_phases import publish_phases
from dedup_clone.publish.records.reporting_tables import record_attempt, try_write_reporting_tables
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import SwapSpec
from dedup_clone.state.current import Intent, IntentKind
from dedup_clone.state.ledger import LedgerRecord, Outcome, count_loads
from dedup_clone.warehouse.metadata import JobMetadata, Observation


def commit_attempt(services: Services, attempt: str) -> tuple[LedgerRecord, CheckResults]:
    """Commit the attempt, then update page and reporting tables.

    Returns the attempt's ledger record and the results of the checks after the swap. An attempt that is committed
    already (the task was retried) is not committed again. When page or tables cannot be updated, a warning is logged
    and nothing is raised. Raises LostRace when the attempt holds no lease and was never committed.
    """
    record = services.ledger.read(attempt)
    intent = services.current.read().intent
    if record is not None and record.outcome is Outcome.PUBLISHED and (intent is None or intent.attempt != attempt):
        results = read_check_results(services, attempt, "after")
    else:
        record, results = commit_generation(services, services.current.require_intent(attempt))
    try_refresh_index(services)
    try_write_reporting_tables(services, holder=attempt)
    try_load_changes(services)
    return record, results


def commit_generation(services: Services, intent: Intent) -> tuple[LedgerRecord, CheckResults]:
    """Check target, which must hold the intent's generation, and commit that generation. Safe to repeat.

    Failed checks do not prevent the commit, because the swap has happened; the caller raises CheckFailed for them.
    Raises OutcomeUnknown when target holds another generation.
    """
    candidate, manifest, swap = _read_attempt(services, intent.attempt)
    target = services.warehouse.observe(services.names, services.feed.target)
    labelled = table_checks.labelled_generation(target.table)
    if labelled != swap.generation:
        raise OutcomeUnknown(
            f"Target [{services.feed.target}] holds generation [{labelled}], expected [{swap.generation}]: "
            f"the swap did not happen or was replaced. Clear the run from its first task."
        )
    results = CheckResults("after", _check_target(services, manifest, swap, target))
    save_check_results(services, intent.attempt, results, snapshot_id=int(swap.snapshot), generation=intent.generation)
    services.manifests.commit(manifest, candidate.file_list_uri)
    record_refusals(services, candidate.refused, run_id=intent.run_id)
    record_erasure(services, intent, candidate, manifest, swap.reason)
    record = _ledger_record(services, intent, candidate, manifest, swap, target)
    before = find_check_results(services, intent.attempt, "before")
    record_attempt(services, record, (results,) if before is None else (before, results))
    if record.change_rows:
        record_changes(services, candidate, manifest)
    services.current.commit(intent.attempt, manifest.digest)  # last: until then a recovery repeats all of the above
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


def _read_attempt(services: Services, attempt: str) -> tuple[Candidate, Manifest, SwapSpec]:
    candidate = services.manifests.candidate(attempt)
    swap = find_swap(services, attempt)
    if candidate is None or candidate.manifest is None or swap is None:
        name = services.store.uri(services.layout.swap_spec(attempt))
        raise ContractViolation(
            f"Attempt [{attempt}] lacks its candidate manifest or [{name}] although it was "
            f"swapped: restore earlier versions of the objects (docs/runbook.md, lost records), then retry."
        )
    return candidate, candidate.manifest, swap


def _check_target(
    services: Services, manifest: Manifest, swap: SwapSpec, target: Observation
) -> tuple[CheckResult, ...]:
    retention_days = manifest.table.retention_days
    return (
        *_check_clone(services, swap, target),
        table_checks.has_labels(target.table, manifest.generation, swap.manifest),
        partition_checks.rows_match("target_rows", manifest, target),
        partition_checks.expiration_set("target_expiration", target, retention_days),
        partition_checks.oldest_within_retention(target, retention_days),
        partition_checks.ending_within_a_day(target, retention_days),
        declared_options_set(target.table.options, swap.options),
        *check_policies(services, "target_policies", services.feed.target),
    )


def _check_clone(services: Services, swap: SwapSpec, target: Observation) -> list[CheckResult]:
    if swap.cloned_at is None:
        return []
    return [table_checks.is_clone_of_staging(target.table, services.feed.staging, swap.cloned_at)]


def _swapped_at(swap: SwapSpec, target: Observation, jobs: Sequence[JobMetadata]) -> datetime:
    """When the clone was created; if the rows were streamed into target, when the swap's job set target's labels."""
    swaps = [job for job in jobs if job.job_id.rsplit("-", 2)[1] == "swap" and not job.error]
    ends = [job.ended_at for job in swaps if job.ended_at]
    return target.table.created_at if swap.cloned_at or not ends else max(ends)


def _ledger_record(
    services: Services,
    intent: Intent,
    candidate: Candidate,
    manifest: Manifest,
    swap: SwapSpec,
    target: Observation,
) -> LedgerRecord:
    replays_some_dates = _replays_some_dates(services, intent.attempt)
    # A bootstrap has no deliveries; the time when it acquired the lease counts as the arrival.
    newest = manifest.deliveries[-1] if manifest.deliveries else None
    arrived_at = services.arrivals.read(newest).arrived_at if newest else intent.taken_at
    jobs = services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    swapped_at = _swapped_at(swap, target, jobs)
    changed = [e.changed for e in manifest.dates]
    parent = None if manifest.parent is None else services.manifests.read(manifest.parent)
    streamed = services.streamed_changes.read(intent.attempt)
    newly_live_arrived_at = None if replays_some_dates else arrival_of_newly_live(services, manifest, parent)
    return LedgerRecord(
        feed=services.feed.feed,
        outcome=Outcome.PUBLISHED,
        reason=swap.reason,
        snapshot_id=int(swap.snapshot),
        deliveries=() if replays_some_dates else manifest.applied,
        generation=manifest.generation,
        parent=intent.parent,
        attempt=intent.attempt,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        restores=manifest.restores,
        engine=manifest.engine,
        plans=tuple(sorted({e.plan for e in manifest.dates})),
        arrived_at=arrived_at,
        swapped_at=swapped_at,
        lag_s=None if newly_live_arrived_at is None else (swapped_at - newly_live_arrived_at).total_seconds(),
        rows=manifest.rows,
        new_rows=sum(e.new_keys for e in manifest.dates),
        changed_rows=None if None in changed else sum(c or 0 for c in changed),
        kept_rows=sum(e.survivors for e in manifest.dates),
        dropped_rows=manifest.dropped_rows,
        ties=sum(e.ties for e in manifest.dates),
        bytes_read=candidate.metrics.bytes_read,
        bytes_written=candidate.metrics.bytes_written,
        shares=shares(manifest, parent),
        phases=publish_phases(
            services, intent, candidate, jobs, streamed, arrived_at=newly_live_arrived_at, swapped_at=swapped_at
        ),
        cost=with_spark(
            cost_of(
                jobs,
                metadata_bytes_billed=swap.bytes_billed + target.bytes_billed,
                merged=merge_input(manifest, parent, swap.staging_bytes),
                streamed=streamed,
                table_bytes=swap.staging_bytes,
            ),
            services.store.read_record(SparkUsage, services.layout.spark_usage(intent.attempt)),
            job_seconds=sum(candidate.metrics.seconds.values()),
        ),
        loads=count_loads(intent.jobs),
        erased_rows=_erased_rows(intent, candidate),
        cluster_overlap=manifest.cluster_overlap,
        rebuilt=intent.kind is IntentKind.REBUILD,
        change_rows=count_changes(services, candidate),
        is_direct=swap.cloned_at is None,
    )


def _erased_rows(intent: Intent, candidate: Candidate) -> int | None:
    is_erasure = intent.kind is IntentKind.ERASURE and candidate.erased is not None
    return sum(candidate.erased.rows.values()) if is_erasure and candidate.erased else None


def _replays_some_dates(services: Services, attempt: str) -> bool:
    """Whether a replay of some dates made the generation. The snapshot that readers see stays the same."""
    request = services.manifests.request(attempt)
    return request is not None and request.dates is not None


def arrival_of_newly_live(services: Services, manifest: Manifest, parent: Manifest | None) -> datetime | None:
    """The arrival of the newest delivery that was never live before; None if there is no such delivery."""
    published = {*parent.deliveries, *parent.excluded} if parent else set()
    newly_live = [delivery for delivery in manifest.applied if delivery not in published]
    return services.arrivals.read(newly_live[-1]).arrived_at if newly_live and manifest.restores is None else None
