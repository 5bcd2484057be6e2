"""First task of an audit: selects the partitions to compare.

Unequal partitions come first, then those that were not audited for the longest time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dedup_clone.checks.partition_checks import EXPIRATION_TOLERANCE
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, Audits, AuditsFile

# The next task skips partitions that exceed a day's whole budget. So it gets this many times
# `partitions_per_day` dates.
DATES_PER_AUDITED = 10
# An audit takes less time than this. So partitions that may expire within this time are not audited.
MAX_AUDIT_DURATION = timedelta(days=1)


@dataclass(frozen=True)
class ChosenPartitions:
    """The dates of the partitions that an audit may compare, most urgent first.

    `reason`: why there are none; empty if there are some.
    """

    dates: tuple[date, ...]
    reason: str = ""


def choose_partitions(services: Services, requested: date | None) -> ChosenPartitions:
    """The partitions to audit; only the `requested` one if it is given.

    Raises ConfigurationError if the requested partition cannot be audited.
    """
    generation = services.current.read().generation
    if generation is None:
        return ChosenPartitions((), "nothing was published yet")
    manifest = services.manifests.read(generation)
    reason = _reason_not_comparable(services, manifest)
    if reason:
        return ChosenPartitions((), reason)
    dates = auditable_dates(manifest, services.now())
    if requested is not None:
        _require_auditable(requested, dates, generation)
        return ChosenPartitions((requested,))
    if not dates:
        return ChosenPartitions((), f"generation {generation} has no rows in partitions that exist for two more days")
    ordered = order_by_last_audit(dates, AuditsFile(services.store, services.feed.feed).read())
    return ChosenPartitions(ordered[: services.feed.content_audit.partitions_per_day * DATES_PER_AUDITED])


def auditable_dates(manifest: Manifest, now: datetime) -> set[date]:
    """The generation's dates that have rows and will not expire while they are audited."""
    lifetime = timedelta(days=manifest.table.retention_days) - EXPIRATION_TOLERANCE - MAX_AUDIT_DURATION
    days = {entry.date for entry in manifest.dates if entry.rows}
    return {day for day in days if datetime(day.year, day.month, day.day, tzinfo=UTC) + lifetime > now}


def order_by_last_audit(dates: set[date], audits: Audits) -> tuple[date, ...]:
    """Unequal dates, then dates never audited (newest first), then the others (longest ago first)."""
    records = {record.date: record for record in audits.records}

    def priority(day: date) -> tuple[bool, datetime]:
        record = records.get(day)
        if record is None:
            return True, datetime.min.replace(tzinfo=UTC)
        return record.outcome is not AuditOutcome.UNEQUAL, record.audited_at

    return tuple(sorted(sorted(dates, reverse=True), key=priority))


def _reason_not_comparable(services: Services, manifest: Manifest) -> str:
    """Why target cannot be compared with files; empty when it can. Policies may hide rows or values from queries."""
    if manifest.data_folder is None:
        return f"generation {manifest.generation} was made by engine [{manifest.engine}], which leaves no files"
    policies = services.warehouse.policies(services.feed.target)
    if policies.row_access or policies.column_tags:
        names = ", ".join([*policies.row_access, *policies.column_tags])
        return f"target has row or column policies ({names}): a query may be shown fewer rows or other values"
    return ""


def _require_auditable(requested: date, dates: set[date], generation: int) -> None:
    if requested not in dates:
        auditable = f"{min(dates)} to {max(dates)}" if dates else "none"
        raise ConfigurationError(
            f"Partition [{requested}] of generation [{generation}] cannot be audited: name one of those that can: "
            f"{auditable}."
        )
