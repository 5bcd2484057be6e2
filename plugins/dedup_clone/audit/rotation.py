"""Which partitions are audited next: unequal ones first, then those that were not for the longest time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dedup_clone.checks.partitions import TOLERANCE
from dedup_clone.contract.manifest import Manifest
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits

_NEVER = datetime.min.replace(tzinfo=UTC)
# BigQuery may delete a partition at any moment near its end; an audit takes less than this.
AUDIT_TAKES = timedelta(days=1)


def auditable_dates(manifest: Manifest, now: datetime) -> set[date]:
    """The generation's dates that have rows and will not expire while they are audited."""
    lasts = timedelta(days=manifest.table.retention_days) - TOLERANCE - AUDIT_TAKES
    days = {entry.date for entry in manifest.dates if entry.rows}
    return {day for day in days if datetime(day.year, day.month, day.day, tzinfo=UTC) + lasts > now}


def in_turn(dates: set[date], audits: Audits) -> tuple[date, ...]:
    """An unequal one is audited again until it is equal; of those never audited the newest date comes first."""
    last = {record.date: record for record in audits.records}
    newest_first = sorted(dates, reverse=True)
    return tuple(sorted(newest_first, key=lambda day: _turn(last.get(day))))


def _turn(record: AuditRecord | None) -> tuple[bool, datetime]:
    if record is None:
        return True, _NEVER
    return record.outcome is not AuditOutcome.UNEQUAL, record.audited_at
