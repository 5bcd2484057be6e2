"""Selects the partitions that an audit compares.

Unequal partitions come first, then those that were not audited for the longest time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dedup_clone.checks.partition_checks import EXPIRATION_TOLERANCE
from dedup_clone.contract.attempt import URIS_PER_JOB
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import FileList, Manifest
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, Audits, AuditsFile

# An audit skips partitions that exceed a day's whole budget. So it gets this many times `partitions_per_day` dates.
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
    files = services.manifests.committed_files(generation)
    if manifest.data_folder is None or files is None:
        return ChosenPartitions((), f"generation {generation}, made by engine [{manifest.engine}], has no files")
    hidden = _hiding_policies(services)
    if hidden:
        return ChosenPartitions((), f"target has row or column policies ({hidden}), which may hide rows or values")
    dates = auditable_dates(manifest, services.now()) - _dates_with_too_many_files(files)
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


def _hiding_policies(services: Services) -> str:
    """The names of target's policies that may hide rows or values from queries."""
    policies = services.warehouse.policies(services.feed.target)
    return ", ".join([*policies.row_access, *policies.column_tags])


def _dates_with_too_many_files(files: FileList) -> set[date]:
    """The dates whose files one query cannot name."""
    return {day for day, count in Counter(file.date for file in files.files).items() if count > URIS_PER_JOB}


def _require_auditable(requested: date, dates: set[date], generation: int) -> None:
    if requested not in dates:
        auditable = f"{min(dates)} to {max(dates)}" if dates else "none"
        raise ConfigurationError(
            f"Partition [{requested}] of generation [{generation}] cannot be audited: name one of those that can: "
            f"{auditable}."
        )
