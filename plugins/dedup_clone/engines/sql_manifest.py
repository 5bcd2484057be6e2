"""Builds the manifest of a generation that an SQL engine makes, from the counts by date and the parent's manifest."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dedup_clone.checks.partition_checks import has_expired, roll_back_to
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DateEntry, DateOutcome, Manifest, newest_snapshot
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.date_counts import CountedDates, DateCounts


def build_manifest(
    request: DedupRequest,
    counted: CountedDates,
    parent: Manifest | None,
    applied: tuple[Delivery, ...],
    *,
    delivered_rows_dropped: int,
    now: datetime,
) -> Manifest:
    """Build the manifest.

    Raises ContractViolation when target's number of rows on a delivered date is not that of the parent's manifest.
    `applied`: the deliveries in the incoming table. `delivered_rows_dropped`: how many of their rows are older than the
    retention.
    """
    parent_entries = {entry.date: entry for entry in parent.dates} if parent else {}
    retained = {day: entry for day, entry in parent_entries.items() if day >= request.retention_day}
    entries = {day: _copied_forward(entry) for day, entry in retained.items()}
    for counts in counted.dates:
        _require_parent_complete(request, counts, retained.get(counts.date), now)
        entries[counts.date] = _entry(request, counts, retained.get(counts.date))
    return Manifest(
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
        deliveries=request.included_deliveries(applied),
        excluded=request.excluded,
        applied=applied,
        code_version=request.code_version,
        run_id=request.run_id,
        attempt=request.attempt,
        created_at=now,
        dropped_rows=delivered_rows_dropped + sum(e.rows for day, e in parent_entries.items() if day not in retained),
        dates=tuple(entries[day] for day in sorted(entries)),
    )


def _copied_forward(entry: DateEntry) -> DateEntry:
    reason = "no applied delivery has this date"
    return replace(
        entry,
        new_keys=0,
        changed=0,
        ties=0,
        plan=DateOutcome.COPIED_FORWARD,
        plan_reason=reason,
        adopted_delivery=None,
        files_digest="",
    )


def _entry(request: DedupRequest, counts: DateCounts, parent_entry: DateEntry | None) -> DateEntry:
    form = f" (form {request.form})" if request.engine is Engine.BIGQUERY else ""
    return DateEntry(
        date=counts.date,
        rows=counts.rows,
        new_keys=counts.new_keys,
        changed=counts.changed,
        survivors=counts.survivors,
        ties=sum(counts.surplus_rows.values()),
        plan=DateOutcome(request.engine),
        plan_reason=f"the engine's statement{form}, over target and the deliveries",
        min_update_id=counts.min_update_id,
        max_update_id=counts.max_update_id,
        adopted_delivery=None,
        key_fingerprint=None,
        content_fingerprint=None,
        files_digest="",
        newest_snapshot=newest_snapshot(request.update_id_mode, counts.snapshot_ids, parent_entry),
    )


def _require_parent_complete(
    request: DedupRequest, counts: DateCounts, parent_entry: DateEntry | None, now: datetime
) -> None:
    """Raise ContractViolation unless target has as many rows of the date as the parent. An expired date may be gone.

    `parent_entry`: None if the parent lacks the date.
    """
    found, expected = counts.rows - counts.new_keys, parent_entry.rows if parent_entry else 0
    if found == expected or (found == 0 and has_expired(counts.date, request.table.retention_days, now)):
        return
    raise ContractViolation(
        f"Date [{counts.date}] has [{found}] keys in target, expected [{expected}] as the parent's manifest says: "
        f"somebody changed target. Next: {roll_back_to(request.parent.generation if request.parent else 0)}."
    )
