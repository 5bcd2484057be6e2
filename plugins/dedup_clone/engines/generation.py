"""The manifest of a generation that SQL makes, from the evidence and the parent's manifest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import FORMAT_VERSION, DateEntry, Manifest
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.evidence import DayEvidence, Evidence

CARRIED = "carried"  # the plan of a date that no applied delivery has: its rows stay as they are


def build_manifest(
    request: DedupRequest,
    evidence: Evidence,
    parent: Manifest | None,
    applied: tuple[Delivery, ...],
    *,
    delivered_rows_dropped: int,
    now: datetime,
) -> Manifest:
    """Raises ContractViolation when target did not hold what the parent's manifest says."""
    before = {entry.date: entry for entry in parent.dates} if parent else {}
    kept = {day: entry for day, entry in before.items() if day >= request.retention_day}
    entries = {day: _carried(entry) for day, entry in kept.items()}
    for day in evidence.days:
        _require_parent_complete(request, day, kept.get(day.date), now)
        entries[day.date] = _entry(request, day)
    return Manifest(
        format_version=FORMAT_VERSION,
        feed=request.feed,
        generation=request.generation,
        parent=parent.generation if parent else None,
        restores=None,
        engine=request.engine,
        table=request.table,
        update_id_mode=request.update_id_mode,
        retention_day=request.retention_day,
        data_folder=None,
        file_list_digest="",
        deliveries=request.folded_with(applied),
        excluded=request.excluded,
        applied=applied,
        code_version=request.code_version,
        run_id=request.run_id,
        attempt=request.attempt,
        created_at=now,
        dropped_rows=delivered_rows_dropped + sum(e.rows for day, e in before.items() if day not in kept),
        dates=tuple(entries[day] for day in sorted(entries)),
    )


def _carried(entry: DateEntry) -> DateEntry:
    reason = "no applied delivery has this date"
    return replace(
        entry, new_keys=0, changed=0, ties=0, plan=CARRIED, plan_reason=reason, adopted_delivery=None, files_digest=""
    )


def _entry(request: DedupRequest, day: DayEvidence) -> DateEntry:
    return DateEntry(
        date=day.date,
        rows=day.rows,
        new_keys=day.new_keys,
        changed=day.changed,
        survivors=day.survivors,
        ties=sum(day.ties.values()),
        plan=request.engine.value,
        plan_reason="the engine's statement, over target and the deliveries",
        min_update_id=day.min_update_id,
        max_update_id=day.max_update_id,
        adopted_delivery=None,
        key_fingerprint=None,
        content_fingerprint=None,
        files_digest="",
    )


def _require_parent_complete(request: DedupRequest, day: DayEvidence, before: DateEntry | None, now: datetime) -> None:
    held, expected = day.rows - day.new_keys, before.rows if before else 0
    if held == expected or (held == 0 and _has_expired(day.date, request.table.retention_days, now)):
        return
    raise ContractViolation(
        f"Date [{day.date}] has [{held}] keys in target, expected [{expected}] as the parent's manifest says: somebody "
        f"changed target. Roll back to the parent generation, or replay its snapshots."
    )


def _has_expired(day: date, retention_days: int, now: datetime) -> bool:
    """BigQuery may have deleted the partition after this run fixed its day."""
    return now >= datetime.combine(day, time(), tzinfo=UTC) + timedelta(days=retention_days)
