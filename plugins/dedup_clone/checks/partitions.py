"""Partitions: do they hold the manifest's rows, unchanged; do they expire as the contract says?"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dedup_clone.checks.verdicts import Level, Verdict, listed, verdict
from dedup_clone.contract.manifest import Manifest
from dedup_clone.warehouse.facts import Observation, PartitionFacts

# The documents disagree on whether the expiration's clock starts at the partition's start or end (a day later).
TOLERANCE = timedelta(days=1)
OVERDUE_FAILS_AFTER = timedelta(hours=48)


def partition_day(partition: PartitionFacts) -> date | None:
    """The partition's day; None for __NULL__ and other special partitions."""
    if not partition.partition_id.isdigit():
        return None
    return datetime.strptime(partition.partition_id, "%Y%m%d").replace(tzinfo=UTC).date()


def _expires_at(day: date, retention_days: int) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=retention_days)


def _has_expired(day: date | None, retention_days: int, now: datetime) -> bool:
    return day is not None and _expires_at(day, retention_days) <= now


def rows_match(check: str, manifest: Manifest, observation: Observation) -> Verdict:
    """Every partition has the manifest's rows.

    Days within a day of their expiry may be gone already; expired ones that the manifest has no more may still be
    there, until BigQuery deletes them.
    """
    expected = {entry.date: entry.rows for entry in manifest.dates if entry.rows}
    retention = manifest.table.retention_days
    found = {
        day: p.rows
        for day, p in ((partition_day(p), p) for p in observation.partitions)
        if p.rows and (day in expected or not _has_expired(day, retention, observation.observed_at))
    }
    may_be_gone = {d for d in expected if _expires_at(d, retention) <= observation.observed_at + TOLERANCE}
    wrong = [
        f"{day}: {found.get(day, 0)} rows, expected {expected.get(day, 0) if day else 0}"
        for day in sorted({*expected, *found}, key=str)
        if found.get(day, 0) != expected.get(day or date.min, 0) and not (day in may_be_gone and day not in found)
    ]
    return verdict(
        check,
        not wrong,
        found=listed(wrong, between="; ") if wrong else "equal",
        expected=f"{manifest.rows} rows in {len(expected)} partitions as in manifest {manifest.generation}",
        next_step="somebody else wrote the table, or files were changed: clear the run from load_staging.",
    )


def unchanged_since_load(observation: Observation) -> Verdict:
    """Every partition's last change lies before the time at which the clone is taken."""
    late = [p.partition_id for p in observation.partitions if p.last_modified_at > observation.observed_at]
    return verdict(
        "staging_unchanged",
        not late,
        found=f"changed later: {listed(late)}" if late else "no later change",
        expected=f"last change of every partition before {observation.observed_at:%Y-%m-%d %H:%M:%S} UTC",
        next_step="another load is writing staging: find it in the job list, wait, clear the run from load_staging.",
    )


def expiration_set(check: str, observation: Observation, retention_days: int) -> Verdict:
    """The table's partition expiration equals the contract's."""
    found = observation.table.expiration_days
    return verdict(
        check,
        found == retention_days,
        found="never" if found is None else f"after {found:g} days",
        expected=f"after {retention_days} days",
        next_step=f"ALTER TABLE {observation.table.name} SET OPTIONS (partition_expiration_days = {retention_days}).",
    )


def oldest_within_retention(observation: Observation, retention_days: int) -> Verdict:
    """Expired partitions are deleted on BigQuery's own schedule: overdue ones warn, and fail after 48 hours."""
    days = sorted(day for day in map(partition_day, observation.partitions) if day)
    overdue = [d for d in days if _expires_at(d, retention_days) + TOLERANCE < observation.observed_at]
    worst = [d for d in overdue if _expires_at(d, retention_days) + OVERDUE_FAILS_AFTER < observation.observed_at]
    return verdict(
        "overdue_partitions",
        not overdue,
        found=f"{len(overdue)} overdue, oldest {overdue[0]}" if overdue else f"oldest {days[0] if days else 'none'}",
        expected=f"no partition older than {retention_days} days",
        next_step="BigQuery deletes expired partitions by itself; if this stays, check the table's expiration setting.",
        otherwise=Level.FAIL if worst else Level.WARN,
    )


def ending_within_a_day(observation: Observation, retention_days: int) -> Verdict:
    """Tells how many partitions end within a day; never worse than a pass."""
    soon = [
        d
        for d in map(partition_day, observation.partitions)
        if d and observation.observed_at <= _expires_at(d, retention_days) <= observation.observed_at + TOLERANCE
    ]
    found = f"{len(soon)} end within a day" + (f": {', '.join(map(str, sorted(soon)))}" if soon else "")
    return Verdict("ending_partitions", Level.PASS, found, "for information")
