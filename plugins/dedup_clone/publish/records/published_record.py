"""Makes the ledger record of an attempt that is about to be committed, and the cost of one that published nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from dedup_clone.checks.share_checks import shares
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import newly_live
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.records.attempt_records import SwapSpec, find_swap
from dedup_clone.publish.records.best_effort import try_read
from dedup_clone.publish.records.publish_costs import cost_of, merge_input
from dedup_clone.publish.records.publish_phases import publish_phases
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage, count_loads
from dedup_clone.state.staging import StreamedChanges
from dedup_clone.warehouse.metadata import Observation

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

    origin = read("lag and shares", lambda: _read_origin(services, attempt, manifest))
    # A bootstrap has no arrival. Then the time when the attempt acquired the lease counts as the arrival.
    arrived_at = read("arrival", lambda: _arrival_of_newest(services, manifest)) or attempt.taken_at
    swapped_at = target.table.created_at
    newly_live_arrived_at = origin.newly_live_arrived_at if origin else None

    jobs = read("phases and cost", lambda: services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s))
    name = services.layout.streamed_changes(intent.attempt)
    streamed = read("streamed rows", lambda: services.store.read_record(StreamedChanges, name))

    def phases() -> dict[str, float]:
        return publish_phases(
            services, intent, candidate, jobs or [], streamed, arrived_at=newly_live_arrived_at, swapped_at=swapped_at
        )

    def cost() -> Cost:
        found = cost_of(
            jobs or [],
            metadata_bytes_billed=swap.bytes_billed + target.bytes_billed,
            merged=merge_input(manifest, origin.parent, swap.staging_bytes) if origin else None,
            streamed=streamed,
            table_bytes=swap.staging_bytes,
            **_spark_usage(services, intent, candidate),
        )
        # A reused candidate's Spark runs are in the ledger record of the attempt that made it.
        return replace(found, spark_usd=0.0) if candidate.reused_from else found

    changed = [e.changed for e in manifest.dates]
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
        shares=shares(manifest, origin.parent) if origin else {},
        phases=(read("phases", phases) if jobs is not None else None) or {},
        cost=read("cost", cost) if jobs is not None else None,
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
        return cost_of(
            [job for job in found if job is not None],
            metadata_bytes_billed=swap.bytes_billed if swap else 0,
            merged=None,
            streamed=streamed,
            table_bytes=staging.size if staging else 0,
            **_spark_usage(services, intent, candidate),
        )

    return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no cost", read)


def _spark_usage(services: Services, intent: Intent, candidate: Candidate | None) -> dict[str, Any]:
    """What `cost_of` needs of the attempt's Spark runs."""
    usage = services.store.read_record(SparkUsage, services.layout.spark_usage(intent.attempt))
    return {"usage": usage, "job_seconds": sum(candidate.metrics.seconds.values()) if candidate else None}


@dataclass(frozen=True)
class _Origin:
    """What a generation adds to. `newly_live_arrived_at`: see `arrival_time_of_newly_live`."""

    parent: Manifest | None
    newly_live_arrived_at: datetime | None


def _read_origin(services: Services, attempt: Attempt, manifest: Manifest) -> _Origin:
    parent = None if manifest.parent is None else services.manifests.read(manifest.parent)
    if attempt.dates is not None:  # dates of a delivery that is live already
        return _Origin(parent, None)
    return _Origin(parent, arrival_time_of_newly_live(services, manifest, parent))


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
