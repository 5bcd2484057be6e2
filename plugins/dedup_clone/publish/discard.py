"""Ends an attempt that did not swap: refused deliveries are set aside, the ledger says why, the lease is freed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import Candidate
from dedup_clone.publish.ledger_table import append_to_ledger_table
from dedup_clone.publish.page_index import tell_page
from dedup_clone.publish.refusals import set_aside
from dedup_clone.publish.services import Services
from dedup_clone.publish.verdict_files import find_kept
from dedup_clone.state.current import Intent, IntentKind
from dedup_clone.state.ledger import LedgerRecord, Outcome


def discard(services: Services, intent: Intent) -> None:
    """Safe to do twice. Target keeps what it has."""
    candidate = services.manifests.candidate(intent.attempt)
    if candidate is not None and intent.kind is not IntentKind.BOOTSTRAP:  # no delivery was refused
        set_aside(services, candidate.refused, run_id=intent.run_id)
    tried = _tried(services, intent, candidate)
    if tried is not None:
        record = _record(services, intent, tried, candidate)
        services.ledger.write(record)
        tell_page(services, ended=record)
        verdicts = find_kept(services, intent.attempt, "before")
        append_to_ledger_table(services, record, () if verdicts is None else (verdicts,))
    services.current.release(intent.attempt)


@dataclass(frozen=True)
class _Tried:
    """What the attempt was to publish."""

    snapshot_id: int
    arrived_at: datetime
    deliveries: tuple[Delivery, ...]
    engine: Engine
    restores: int | None


def _tried(services: Services, intent: Intent, candidate: Candidate | None) -> _Tried | None:
    """None for a run that died before it wrote its request, or a rollback before its manifest: it has tried nothing."""
    manifest = candidate.manifest if candidate else None
    if intent.kind is IntentKind.ROLLBACK:
        if manifest is None:
            return None
        newest = manifest.deliveries[-1:]
        arrived_at = services.arrivals.read(newest[0]).arrived_at if newest else intent.taken_at
        return _Tried(manifest.snapshot_id, arrived_at, (), manifest.engine, manifest.restores)
    asked = services.manifests.request(intent.attempt)
    if asked is None:
        return None
    if intent.kind is IntentKind.BOOTSTRAP:
        return _Tried(manifest.snapshot_id if manifest else 0, intent.taken_at, (), asked.engine, None)
    deliveries = tuple(item.delivery for item in asked.deliveries)
    arrived_at = services.arrivals.read(deliveries[-1]).arrived_at
    return _Tried(deliveries[-1].snapshot_id, arrived_at, deliveries, asked.engine, None)


def _record(services: Services, intent: Intent, tried: _Tried, candidate: Candidate | None) -> LedgerRecord:
    refused = candidate is not None and candidate.manifest is None
    metrics = candidate.metrics if candidate else None
    return LedgerRecord(
        feed=services.feed.feed,
        outcome=Outcome.REFUSED if refused else Outcome.FAILED,
        reason=_reason(services, intent, candidate),
        snapshot_id=tried.snapshot_id,
        deliveries=tried.deliveries,
        generation=intent.generation,
        parent=intent.parent,
        attempt=intent.attempt,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        restores=tried.restores,
        engine=tried.engine,
        plans=(),
        arrived_at=tried.arrived_at,
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
        cost=None,
    )


def _reason(services: Services, intent: Intent, candidate: Candidate | None) -> str:
    if intent.waits_for_approval:
        return "ended while its accepted checks waited for approval: rejected, or another run wanted the lease"
    if candidate is None:
        return "ended before its dedup job did"
    if candidate.manifest is None:
        return "; ".join(item.reason for item in candidate.refused)
    staging = services.staging.read()
    if staging is None or staging.attempt != intent.attempt:
        return "ended before its load"
    return (
        f"ended before its swap; staging is {staging.state}; see {services.layout.verdicts(intent.attempt, 'before')}"
    )
