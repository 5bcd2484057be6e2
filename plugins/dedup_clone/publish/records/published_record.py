"""Makes the ledger record of an attempt that is about to be committed, and the cost of one that published nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from dedup_clone.checks.share_checks import shares
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import newly_live
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.records.attempt_records import SwapSpec, find_swap
from dedup_clone.publish.records.best_effort import try_read
from dedup_clone.publish.records.publish_costs import cost_of, merge_input, with_spark
from dedup_clone.publish.records.publish_phases import publish_phases
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage, count_loads
from dedup_clone.state.streamed_changes import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata, Observation

T = TypeVar("T")


def published_record(
    services: Services,
    intent: Intent,
    attempt: Attempt,
    candidate: Candidate,
    manifest: Manifest,
    swap: SwapSpec,
    target: Observation,
    change_rows: int | None,
) -> LedgerRecord:
    """The attempt's ledger record. It only reports: what cannot be read for it is None or empty, and logged.

    `target`: as observed after the swap. `change_rows`: what `record_changes` returned.
    """

    def read(what: str, function: Callable[[], T]) -> T | None:
        """The result of `function`; None if it fails, and a log line that the record has no `what`."""
        return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no {what}", function)

    work = read("phases and cost", lambda: _read_jobs_and_stream(services, intent))
    jobs, streamed = work or ([], None)
    parent_generation = manifest.parent
    parent = None
    if parent_generation is not None:
        parent = read("lag and shares", lambda: services.manifests.read(parent_generation))
    is_parent_known = parent_generation is None or parent is not None
    newly_live_arrived_at = None
    if is_parent_known and attempt.dates is None:
        newly_live_arrived_at = read("lag", lambda: arrival_time_of_newly_live(services, manifest, parent))
    # A bootstrap has no arrival. Then the time when the attempt acquired the lease counts as the arrival.
    arrived_at = read("arrival", lambda: _arrival_of_newest(services, manifest)) or attempt.taken_at
    swapped_at = target.table.created_at
    merged = merge_input(manifest, parent, swap.staging_bytes) if is_parent_known else None
    changed = [e.changed for e in manifest.dates]
    phases, cost = None, None
    if work is not None:
        phases = read(
            "phases",
            lambda: publish_phases(
                services, intent, candidate, jobs, streamed, arrived_at=newly_live_arrived_at, swapped_at=swapped_at
            ),
        )
        metadata_bytes_billed = swap.bytes_billed + target.bytes_billed
        table_cost = cost_of(
            jobs,
            metadata_bytes_billed=metadata_bytes_billed,
            merged=merged,
            streamed=streamed,
            table_bytes=swap.staging_bytes,
        )
        cost = read("cost", lambda: _add_spark_cost(services, intent, candidate, table_cost))
    return LedgerRecord(
        feed=services.feed.feed,
        kind=attempt.kind,
        is_replay=attempt.is_replay,
        outcome=Outcome.PUBLISHED,
        stage=Stage.COMMIT,
        reason=attempt.reason,
        snapshot_id=int(swap.snapshot),
        deliveries=manifest.applied if attempt.dates is None else (),
        generation=manifest.generation,
        parent=attempt.parent,
        attempt=attempt.id,
        dag_id=attempt.dag_id,
        run_id=attempt.run_id,
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
        shares=shares(manifest, parent) if is_parent_known else {},
        phases=phases or {},
        cost=cost,
        loads=count_loads(intent.jobs),
        erased_rows=sum(candidate.erased.rows.values()) if manifest.kind is Kind.ERASE and candidate.erased else None,
        cluster_overlap=manifest.cluster_overlap,
        change_rows=change_rows,
        taken_over=not manifest.deliveries,
    )


def failed_attempt_cost(services: Services, intent: Intent, candidate: Candidate | None) -> Cost | None:
    """The cost of the attempt's jobs and Spark runs as far as it is recorded; None if it cannot be read.

    The checks' own queries of metadata, 10 MB each, count only if all checks passed.
    """

    def read() -> Cost:
        found = [services.warehouse.job(job_id) for job_id in intent.jobs]
        swap = find_swap(services, intent.attempt)
        streamed = services.store.read_record(StreamedChanges, services.layout.streamed_changes(intent.attempt))
        staging = services.warehouse.table(services.feed.staging) if streamed else None
        cost = cost_of(
            [job for job in found if job is not None],
            metadata_bytes_billed=swap.bytes_billed if swap else 0,
            merged=None,
            streamed=streamed,
            table_bytes=staging.size if staging else 0,
        )
        return _add_spark_cost(services, intent, candidate, cost)

    return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no cost", read)


def _read_jobs_and_stream(services: Services, intent: Intent) -> tuple[list[JobMetadata], StreamedChanges | None]:
    """The attempt's BigQuery jobs, and what it streamed."""
    jobs = services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    return list(jobs), services.store.read_record(StreamedChanges, services.layout.streamed_changes(intent.attempt))


def _add_spark_cost(services: Services, intent: Intent, candidate: Candidate | None, cost: Cost) -> Cost:
    if candidate is not None and candidate.reused_from:
        return replace(cost, spark_usd=0.0)  # that attempt's own ledger record has the cost of its Spark runs
    usage = services.store.read_record(SparkUsage, services.layout.spark_usage(intent.attempt))
    return with_spark(cost, usage, sum(candidate.metrics.seconds.values()) if candidate else None)


def _arrival_of_newest(services: Services, manifest: Manifest) -> datetime | None:
    """The arrival of the newest delivery; without deliveries that of the generation from which the rows come."""
    if manifest.deliveries:
        return services.arrivals.read(manifest.deliveries[-1]).arrived_at
    origin = manifest.parent if manifest.restores is None else manifest.restores
    record = None if origin is None else services.ledger.read(services.manifests.read(origin).attempt)
    return None if record is None else record.arrived_at


def arrival_time_of_newly_live(services: Services, manifest: Manifest, parent: Manifest | None) -> datetime | None:
    """The arrival of the newest delivery that was never live before.

    None if there is no such delivery.
    """
    found = newly_live(manifest.applied, (*parent.deliveries, *parent.excluded) if parent else ())
    return services.arrivals.read(found[-1]).arrived_at if found else None
