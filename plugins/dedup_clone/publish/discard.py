"""Ends an attempt that did not swap: refused deliveries are set aside, the ledger says why, the lease is freed."""

from __future__ import annotations

from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_clone.contract.request import DedupRequest
from dedup_clone.publish.refusals import set_aside
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import LedgerRecord, Outcome


def discard(services: Services, intent: Intent) -> None:
    """Safe to do twice. Target keeps what it has."""
    candidate = services.manifests.candidate(intent.attempt)
    if candidate is not None:
        set_aside(services, candidate.refused, run_id=intent.run_id)
    request = services.store.read(services.layout.request(intent.attempt))
    if request is not None:  # a run that died before it wrote its request has tried nothing
        asked = from_json(DedupRequest, request.text, where=services.store.uri(services.layout.request(intent.attempt)))
        services.ledger.write(_record(services, intent, asked, candidate))
    services.current.release(intent.attempt)


def _record(services: Services, intent: Intent, asked: DedupRequest, candidate: Candidate | None) -> LedgerRecord:
    newest = asked.deliveries[-1].delivery
    refused = candidate is not None and candidate.manifest is None
    metrics = candidate.metrics if candidate else None
    return LedgerRecord(
        feed=services.feed.feed,
        outcome=Outcome.REFUSED if refused else Outcome.FAILED,
        reason=_reason(services, intent, candidate),
        snapshot_id=newest.snapshot_id,
        deliveries=tuple(item.delivery for item in asked.deliveries),
        generation=intent.generation,
        parent=intent.parent,
        attempt=intent.attempt,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        restores=None,
        engine=asked.engine,
        plans=(),
        arrived_at=services.arrivals.read(newest).arrived_at,
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
