"""Commit step: checks after the swap, manifest, CURRENT, ledger, index. Everything is read from state, so that
healing a dead run is the same code."""

from __future__ import annotations

from datetime import datetime

from dedup_clone.checks import partitions, tables
from dedup_clone.checks.shares import shares
from dedup_clone.checks.verdicts import Verdict, Verdicts
from dedup_clone.contract.errors import ContractViolation, OutcomeUnknown
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.check import judge_policies
from dedup_clone.publish.costs import cost_of
from dedup_clone.publish.ledger_table import append_to_ledger_table
from dedup_clone.publish.orders import SwapOrder
from dedup_clone.publish.page_index import refresh_index
from dedup_clone.publish.refusals import set_aside
from dedup_clone.publish.services import Services
from dedup_clone.publish.status import refresh_status
from dedup_clone.publish.swap_files import find_swap
from dedup_clone.publish.verdict_files import keep, read_kept
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.warehouse.facts import JobFacts, Observation


def commit_generation(services: Services, intent: Intent) -> tuple[LedgerRecord, Verdicts]:
    """Target holds the intent's generation: judge it and commit it. Safe to do twice.

    The swap has happened, so CURRENT follows it whatever the checks say; the caller raises their fails afterwards.
    Raises OutcomeUnknown when target does not hold that generation.
    """
    candidate, manifest, swap = _read_attempt(services, intent.attempt)
    target = services.warehouse.observe(services.names, services.feed.target)
    live = target.table.labels.get(tables.GENERATION_LABEL)
    if live != swap.generation:
        raise OutcomeUnknown(
            f"Target [{services.feed.target}] holds generation [{live}], expected [{swap.generation}]: "
            f"the swap did not happen or was replaced. Clear the run from its first task."
        )
    verdicts = Verdicts("after", _judge(services, manifest, swap, target))
    keep(services, intent.attempt, verdicts, snapshot_id=int(swap.snapshot), generation=intent.generation)
    services.manifests.commit(manifest, services.manifests.candidate_files(candidate))
    set_aside(services, candidate.refused, run_id=intent.run_id)
    record = _record(services, intent, candidate, manifest, swap, target)
    services.ledger.write(record)
    refresh_index(services, ended=record, committed=manifest)
    services.current.commit(intent.attempt, manifest.digest)  # last: until then, whoever heals does all of it again
    services.fact(
        f"committed: {record.rows} rows, {record.new_rows} new, "
        f"{'changed not compared' if record.changed_rows is None else f'{record.changed_rows} changed'}, "
        f"{record.kept_rows} kept, " + ("no new snapshot" if record.lag_s is None else f"lag {record.lag_s:.1f} s"),
        snapshot_id=record.snapshot_id,
        generation=record.generation,
    )
    return record, verdicts


def commit_attempt(services: Services, attempt: str) -> tuple[LedgerRecord, Verdicts]:
    """Commit the attempt and tell readers. An attempt that is committed already (a retried task) is told again.

    Raises LostRace when the attempt holds no lease and was never committed.
    """
    record = services.ledger.read(attempt)
    intent = services.current.read().intent
    if record is not None and record.outcome is Outcome.PUBLISHED and (intent is None or intent.attempt != attempt):
        verdicts = read_kept(services, attempt, "after")
    else:
        record, verdicts = commit_generation(services, services.current.require_intent(attempt))
    refresh_status(services, record)
    append_to_ledger_table(services, record, (read_kept(services, attempt, "before"), verdicts))
    return record, verdicts


def _read_attempt(services: Services, attempt: str) -> tuple[Candidate, Manifest, SwapOrder]:
    candidate = services.manifests.candidate(attempt)
    swap = find_swap(services, attempt)
    if candidate is None or candidate.manifest is None or swap is None:
        name = services.store.uri(services.layout.swap_order(attempt))
        raise ContractViolation(
            f"Attempt [{attempt}] lacks its candidate manifest or [{name}] although it was "
            f"swapped: restore the objects (soft delete keeps them for seven days), then retry."
        )
    return candidate, candidate.manifest, swap


def _judge(services: Services, manifest: Manifest, swap: SwapOrder, target: Observation) -> tuple[Verdict, ...]:
    days = manifest.table.retention_days
    return (
        tables.is_clone_of_staging(target.table, services.feed.staging, swap.checked_at),
        tables.has_labels(target.table, manifest.generation, swap.manifest),
        partitions.rows_match("target_rows", manifest, target),
        partitions.expiration_set("target_expiration", target, days),
        partitions.oldest_within_retention(target, days),
        partitions.ending_within_a_day(target, days),
        *judge_policies(services, "target_policies", services.feed.target),
    )


def _record(
    services: Services,
    intent: Intent,
    candidate: Candidate,
    manifest: Manifest,
    swap: SwapOrder,
    target: Observation,
) -> LedgerRecord:
    in_part = _is_in_part(services, intent.attempt)
    newest = ((not in_part and manifest.applied) or manifest.deliveries)[-1:]
    # A table that was taken over arrived when its bootstrap began.
    arrived_at = services.arrivals.read(newest[0]).arrived_at if newest else intent.taken_at
    jobs = services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    swapped_at = target.table.created_at
    changed = [e.changed for e in manifest.dates]
    return LedgerRecord(
        feed=services.feed.feed,
        outcome=Outcome.PUBLISHED,
        reason=swap.reason,
        snapshot_id=newest[0].snapshot_id if newest else int(swap.snapshot),
        deliveries=() if in_part else manifest.applied,
        generation=manifest.generation,
        parent=manifest.parent,
        attempt=intent.attempt,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        restores=manifest.restores,
        engine=manifest.engine,
        plans=tuple(sorted({e.plan for e in manifest.dates})),
        arrived_at=arrived_at,
        swapped_at=swapped_at,
        lag_s=None if manifest.restores or in_part or not newest else (swapped_at - arrived_at).total_seconds(),
        rows=manifest.rows,
        new_rows=sum(e.new_keys for e in manifest.dates),
        changed_rows=None if None in changed else sum(c or 0 for c in changed),
        kept_rows=sum(e.survivors for e in manifest.dates),
        dropped_rows=manifest.dropped_rows,
        ties=sum(e.ties for e in manifest.dates),
        bytes_read=candidate.metrics.bytes_read,
        bytes_written=candidate.metrics.bytes_written,
        shares=shares(manifest, _parent(services, manifest)),
        phases=_phases(arrived_at, intent.taken_at, candidate, jobs),
        cost=cost_of(
            jobs,
            metadata_bytes_billed=swap.bytes_billed + target.bytes_billed,
            table_bytes=swap.staging_bytes,
        ),
    )


def _is_in_part(services: Services, attempt: str) -> bool:
    """Whether only some dates of a delivery were published: readers see no other snapshot by that."""
    request = services.manifests.request(attempt)
    return request is not None and request.dates is not None


def _parent(services: Services, manifest: Manifest) -> Manifest | None:
    return None if manifest.parent is None else services.manifests.read(manifest.parent)


def _phases(arrived_at: datetime, taken_at: datetime, candidate: Candidate, jobs: list[JobFacts]) -> dict[str, float]:
    """Seconds: until the lease was taken, of the dedup job, of each BigQuery job."""
    phases = {"until_lease": (taken_at - arrived_at).total_seconds(), "dedup": sum(candidate.metrics.seconds.values())}
    for job in jobs:
        if job.started_at and job.ended_at:
            step = job.job_id.rsplit("-", 2)[1].split("_")[0]  # `load_20260131` is one of the jobs of `load`
            phases[step] = phases.get(step, 0.0) + (job.ended_at - job.started_at).total_seconds()
    return phases
