"""What the page shows of one feed, as plain JSON values. Ids are texts: a browser's numbers end at 2**53."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dedup_clone.checks.verdicts import ACCEPTABLE_CHECKS
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.request import Plan
from dedup_clone.page.kinds import Kind, kinds_of
from dedup_clone.page.promise import Judgement, judge, waiting_arrivals
from dedup_clone.page.restoring import generation_view
from dedup_clone.page.schedule import due_today, seen_today, today, zone_of
from dedup_clone.state.index import Fate, Index, IndexArrival
from dedup_clone.state.ledger import LedgerRecord

PUBLISHES_SHOWN = 100


def publish_dag(feed: str) -> str:
    return f"{feed}_publish"


def rollback_dag(feed: str) -> str:
    return f"{feed}_rollback"


def summary(feed: str, index: Index | None, problem: str, now: datetime) -> dict[str, Any]:
    """One line of the list of feeds."""
    if index is None:
        return {"feed": feed, "state": "unknown", "headline": problem, "waiting": 0}
    judgement = judge(index, now)
    return {
        "feed": feed,
        "state": str(judgement.state),
        "headline": judgement.headline,
        "waiting": len(waiting_arrivals(index)),
    }


def feed_view(index: Index, now: datetime) -> dict[str, Any]:
    """Everything that the page shows of one feed at `now` (UTC)."""
    shown, kinds = index.records[-PUBLISHES_SHOWN:], kinds_of(index)
    return {
        "now": now.isoformat(),
        "feed": index.feed,
        "description": index.description,
        "owner": index.owner,
        "target": index.target,
        "engine": str(index.engine),
        "promise_minutes": index.promise_minutes,
        "retention_days": index.retention_days,
        "state": _state(judge(index, now)),
        "live": _live(index, kinds, now),
        "today": _today(index, now),
        "waiting": [_arrival(a) for a in waiting_arrivals(index)],
        "publishes": [_publish(r, kinds[r.generation]) for r in shown],
        "failures": [_failure(r) for r in index.failures],
        "dates": _dates(index, now),
        "audit": _audit(index),
        "checks": [_checks(index, position) for position in range(len(index.checks))],
        "costs": _costs(shown),
        "generations": [generation_view(index, g, now) for g in reversed(index.generations)],
        "excluded": [d.name for d in index.excluded],
        "refused": [_arrival(a) for a in reversed(index.arrivals) if a.fate is Fate.REFUSED],
        "replayable": [_arrival(a) for a in reversed(index.arrivals)],
        "choices": {
            "engines": [str(engine) for engine in Engine],
            "plans": [str(plan) for plan in Plan],
            "acceptable_checks": list(ACCEPTABLE_CHECKS),
            "publish_dag": publish_dag(index.feed),
            "rollback_dag": rollback_dag(index.feed),
        },
    }


def _state(judgement: Judgement) -> dict[str, Any]:
    return {"name": str(judgement.state), "headline": judgement.headline, "reasons": list(judgement.reasons)}


def _live(index: Index, kinds: dict[int, Kind], now: datetime) -> dict[str, Any] | None:
    record = next((r for r in reversed(index.records) if r.generation == index.generation), None)
    if record is None:
        return None
    return {**_publish(record, kinds[record.generation]), "age_s": (now - record.arrived_at).total_seconds()}


def _today(index: Index, now: datetime) -> dict[str, Any]:
    return {
        "day": today(index, now).isoformat(),
        "zone": zone_of(index),
        "has_schedule": index.expected is not None,
        "expected": [
            {"at": d.at.isoformat(), "clock": f"{d.at:%H:%M}", "met": d.met, "overdue": d.is_overdue}
            for d in due_today(index, now)
        ],
        "seen": [_arrival(a) for a in seen_today(index, now)],
    }


def _arrival(arrival: IndexArrival) -> dict[str, Any]:
    return {
        "snapshot_id": str(arrival.delivery.snapshot_id),
        "marker_generation": str(arrival.delivery.marker_generation),
        "arrived_at": arrival.arrived_at.isoformat(),
        "files": arrival.files,
        "bytes": arrival.bytes,
        "fate": str(arrival.fate),
        "reason": arrival.reason,
        "refused_at": _moment(arrival.refused_at),
    }


def _publish(record: LedgerRecord, kind: Kind) -> dict[str, Any]:
    cost = record.cost
    return {
        "kind": str(kind),
        "generation": record.generation,
        "parent": record.parent,
        "restores": record.restores,
        "snapshot_id": str(record.snapshot_id),
        "deliveries": [d.name for d in record.deliveries],
        "dag_id": record.dag_id,
        "run_id": record.run_id,
        "engine": str(record.engine),
        "plans": list(record.plans),
        "reason": record.reason,
        "arrived_at": record.arrived_at.isoformat(),
        "swapped_at": _moment(record.swapped_at),
        "lag_s": record.lag_s if kind is Kind.PUBLISH else None,
        "rows": record.rows,
        "new_rows": record.new_rows,
        "changed_rows": record.changed_rows,
        "kept_rows": record.kept_rows,
        "dropped_rows": record.dropped_rows,
        "phases": record.phases,
        "query_usd": cost.query_usd if cost else None,
        "merge_usd": cost.merge_usd if cost else None,
        "qualify_usd": cost.qualify_usd if cost else None,
    }


def _failure(record: LedgerRecord) -> dict[str, Any]:
    return {
        "generation": record.generation,
        "snapshot_id": str(record.snapshot_id),
        "outcome": str(record.outcome),
        "reason": record.reason,
        "arrived_at": record.arrived_at.isoformat(),
        "dag_id": record.dag_id,
        "run_id": record.run_id,
    }


def _dates(index: Index, now: datetime) -> list[list[Any]]:
    """Date, rows, survivors, days until BigQuery removes the partition (UTC days; below zero: overdue)."""
    day = now.astimezone(UTC).date()
    return [[e.date.isoformat(), e.rows, e.survivors, (e.date - day).days + index.retention_days] for e in index.dates]


def _audit(index: Index) -> dict[str, Any] | None:
    audit = index.audit
    if audit is None:
        return None
    return {
        "date": audit.date.isoformat(),
        "generation": audit.generation,
        "outcome": audit.outcome,
        "audited_at": audit.audited_at.isoformat(),
        "unequal_dates": [day.isoformat() for day in audit.unequal_dates],
    }


def _checks(index: Index, position: int) -> dict[str, Any]:
    checks = index.checks[position]
    return {
        "generation": checks.generation,
        "snapshot_id": str(checks.snapshot_id),
        "published": any(r.attempt == checks.attempt for r in index.records),
        "verdicts": [
            {
                "phase": v.phase,
                "check": v.check,
                "level": v.level,
                "found": v.found,
                "expected": v.expected,
                "next_step": v.next_step,
            }
            for v in checks.verdicts
        ],
    }


def _costs(records: tuple[LedgerRecord, ...]) -> dict[str, Any]:
    costs = [r.cost for r in records if r.cost is not None]
    return {
        "publishes": len(costs),
        "query_usd": sum(c.query_usd for c in costs),
        "merge_usd": sum(c.merge_usd for c in costs),
        "qualify_usd": sum(c.qualify_usd for c in costs),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
