"""Ends an attempt that did not swap: writes refusals, held deliveries and a ledger record, releases the lease.

Then it deletes the attempt's data. A rebuild's tables get back their former layout before the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.checks.check_result import stopped_by
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Candidate
from dedup_clone.publish.planning.partition_export import export_folder
from dedup_clone.publish.planning.reused_candidate import kept_folders
from dedup_clone.publish.planning.staging_table import restore_tables
from dedup_clone.publish.prune import data_of_ended_attempts
from dedup_clone.publish.records.attempt_records import (
    failed_checks,
    find_check_results,
    record_refusals,
)
from dedup_clone.publish.records.best_effort import best_effort, try_read
from dedup_clone.publish.records.failed_attempt_cost import failed_attempt_cost
from dedup_clone.publish.records.held_deliveries import hold_stopped
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.records.reporting_tables import record_attempt, try_report
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import LedgerRecord, Outcome, Stage, count_loads


def discard(services: Services, intent: Intent) -> None:
    """End the attempt; target stays as it is. Safe to repeat."""
    candidate = services.manifests.candidate(intent.attempt)
    if candidate is not None and not intent.kind.takes_over_table:  # a bootstrap or rebuild refuses no landed delivery
        record_refusals(services, candidate.refused, run_id=intent.run_id)
    hold_stopped(services, intent, candidate)
    planned = _find_planned_publish(services, intent, candidate)
    if planned is not None:
        record = _ledger_record(services, intent, planned, candidate)
        results = find_check_results(services, intent.attempt, "before")
        record_attempt(services, record, () if results is None else (results,))
    if intent.kind is Kind.REBUILD:
        restore_tables(services, intent)
    services.current.release(intent.attempt)
    if planned is not None:
        try_refresh_index(services)
        try_report(services, intent.attempt)
    if intent.kind is not Kind.RETIRE:  # its export may be all that is left of target
        _delete_data(services, intent)


def _delete_data(services: Services, intent: Intent) -> None:
    """Delete the attempt's files, exported ones too, the incoming table, and data that earlier attempts left.

    The files of a candidate that a replay may use again stay. What cannot be deleted is deleted after the next attempt.
    """
    layout, store = services.layout, services.store
    with best_effort(services, f"data of attempt [{intent.attempt}] is left until the next attempt ends"):
        current = services.current.read()
        live = None if current.generation is None else services.manifests.read(current.generation)
        own = [export_folder(services, intent.attempt), layout.changes_folder(intent.attempt)]
        own += {layout.data_folder(intent.attempt)} - kept_folders(services, live)
        earlier = data_of_ended_attempts(services, current)
        count = sum(store.delete_prefix(folder) for folder in [*own, *(f for f in earlier if f not in own)])
        services.warehouse.alterations.drop(services.names.incoming_table)
        services.log(f"deleted {count} files of attempt [{intent.attempt}]", generation=intent.generation)


@dataclass(frozen=True)
class _PlannedPublish:
    """What the attempt would have published. `snapshot_id`: 0 if it is not known.

    `arrived_at`: see `_arrived_at`; in an erasure, bootstrap or rebuild, when the lease was acquired. `restores`: the
    generation that a rollback would have restored; None for other attempts.
    """

    snapshot_id: int
    arrived_at: datetime
    deliveries: tuple[Delivery, ...]
    engine: Engine
    restores: int | None


def _find_planned_publish(services: Services, intent: Intent, candidate: Candidate | None) -> _PlannedPublish | None:
    """Return what the attempt would have published; None for a retirement, which publishes nothing.

    None also if the run died before it wrote its request (in a rollback: its candidate).
    """
    manifest = candidate.manifest if candidate else None
    if intent.kind is Kind.ROLLBACK:
        if manifest is None:
            return None
        arrived_at = _arrived_at(services, intent, manifest.deliveries)
        return _PlannedPublish(manifest.snapshot_id, arrived_at, (), manifest.engine, manifest.restores)
    request = services.manifests.request(intent.attempt)
    if request is None:
        return None
    if intent.kind.takes_over_table or intent.kind is Kind.ERASE:
        return _PlannedPublish(manifest.snapshot_id if manifest else 0, intent.taken_at, (), request.engine, None)
    deliveries = tuple(item.delivery for item in request.deliveries)
    arrived_at = _arrived_at(services, intent, deliveries)
    return _PlannedPublish(deliveries[-1].snapshot_id, arrived_at, deliveries, request.engine, None)


def _arrived_at(services: Services, intent: Intent, deliveries: tuple[Delivery, ...]) -> datetime:
    """When the newest delivery arrived; when the lease was acquired, if there is none or its arrival is not known."""
    if not deliveries:
        return intent.taken_at
    consequence = f"the ledger record of attempt [{intent.attempt}] has no arrival"
    arrival = try_read(services, consequence, lambda: services.arrivals.read(deliveries[-1]))
    return arrival.arrived_at if arrival else intent.taken_at


def _ledger_record(
    services: Services, intent: Intent, planned: _PlannedPublish, candidate: Candidate | None
) -> LedgerRecord:
    all_refused = candidate is not None and candidate.manifest is None
    metrics = candidate.metrics if candidate else None
    stage, reason = _how_it_ended(services, intent, candidate)
    return LedgerRecord(
        feed=services.feed.feed,
        kind=intent.kind,
        outcome=Outcome.REFUSED if all_refused else Outcome.FAILED,
        stage=stage,
        reason=reason,
        snapshot_id=planned.snapshot_id,
        deliveries=planned.deliveries,
        generation=intent.generation,
        parent=intent.parent,
        attempt=intent.attempt,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        restores=planned.restores,
        engine=planned.engine,
        plans=(),
        arrived_at=planned.arrived_at,
        swapped_at=None,
        lag_s=None,
        rows=0,
        new_rows=0,
        changed_rows=None,
        kept_rows=0,
        dropped_rows=0,
        ties=0,
        bytes_read=metrics.bytes_read if metrics else 0,
        bytes_written=metrics.bytes_written if metrics else 0,
        shares={},
        phases=dict(metrics.seconds) if metrics else {},
        cost=failed_attempt_cost(services, intent, candidate),
        loads=count_loads(intent.jobs),
    )


def _how_it_ended(services: Services, intent: Intent, candidate: Candidate | None) -> tuple[Stage, str]:
    """The stage that the attempt had reached, and why it ended."""
    if intent.waits_for_approval:
        return Stage.CHECK, (
            "ended while its accepted checks waited for approval: it was rejected, nobody answered in time, or another "
            "run took the lease"
        )
    if candidate is None:
        return Stage.DEDUP, "ended before its dedup had a result"
    if candidate.manifest is None:
        return Stage.DEDUP, "; ".join(item.reason for item in candidate.refused)
    failed = failed_checks(services, intent.attempt)
    if failed:
        return Stage.CHECK, stopped_by(failed)
    staging = services.staging.read()
    if staging is None or staging.attempt != intent.attempt:
        return Stage.LOAD, "ended before its load"
    check_results = services.layout.check_results(intent.attempt, "before")
    return Stage.CHECK, f"ended before its swap; staging is {staging.state}; see {check_results}"
