"""Checks a table's partitions: their numbers of rows, their changes since the load, and their expiration.

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta

from dedup_clone.checks.check_result import CheckResult, Level, listed, make_result
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import PartitionBy, TableContract
from dedup_clone.warehouse.metadata import Observation, PartitionMetadata, TableMetadata, to_milliseconds

# BigQuery's documentation is unclear on whether the expiration counts from the start or the end of the day.
EXPIRATION_TOLERANCE = timedelta(days=1)


_FORMATS = {len("YYYYMM"): "%Y%m", len("YYYYMMDD"): "%Y%m%d", len("YYYYMMDDHH"): "%Y%m%d%H"}  # of partition ids


def partition_day(partition: PartitionMetadata) -> date | None:
    """The first date of a partition; None for `__NULL__` and other special partitions."""
    start = _partition_start(partition)
    return start.date() if start else None


def _partition_start(partition: PartitionMetadata) -> datetime | None:
    if not partition.partition_id.isdigit():
        return None
    return datetime.strptime(partition.partition_id, _FORMATS[len(partition.partition_id)]).replace(tzinfo=UTC)


def _expires_at(day: date, retention_days: int) -> datetime:
    """When the partition of `day` expires: `retention_days` after the start of the day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=retention_days)


def roll_back_to(live: int) -> str:
    """The next step after somebody changed target's rows. `live`: the generation that CURRENT names."""
    return f"roll back to generation [{live}], the live one: this makes target from staging again"


def has_expired(day: date, retention_days: int, now: datetime) -> bool:
    """Whether the partition of `day` has expired by `now`, so that BigQuery may have deleted it."""
    return _expires_at(day, retention_days) <= now


def may_be_expired(table: TableContract, found: int, expected: int) -> bool:
    """Whether rows that an expired date lacks may have gone with its partition, or with those of some of its hours."""
    return found == 0 or (table.partition_by is PartitionBy.HOUR and found < expected)


def check_rows(check: str, manifest: Manifest, observation: Observation) -> CheckResult:
    """Every partition has as many rows as the manifest says. `check`: the name of the check.

    BigQuery does not say when exactly it deletes an expired partition. So a partition that has expired, or expires
    within a day, may be missing, and an expired partition that the manifest no longer has may still exist.
    """
    expected = Counter[date]()
    for entry in manifest.dates:
        if entry.rows:
            expected[manifest.table.partition_start(entry.date)] += entry.rows
    table, retention, found = manifest.table, manifest.table.retention_days, Counter[date]()
    wrong = []
    for partition in observation.partitions:
        day = partition_day(partition)
        if day is None and partition.rows:
            wrong.append(f"{partition.partition_id}: {partition.rows} rows, expected 0")
        elif day and partition.rows and (day in expected or not has_expired(day, retention, observation.observed_at)):
            found[day] += partition.rows
    may_be_gone = {d for d in expected if _expires_at(d, retention) <= observation.observed_at + EXPIRATION_TOLERANCE}
    wrong += [
        f"{day}: {found[day]} rows, expected {expected[day]}"
        for day in sorted({*expected, *found})
        if found[day] != expected[day] and not (day in may_be_gone and may_be_expired(table, found[day], expected[day]))
    ]
    return make_result(
        check,
        not wrong,
        found=listed(wrong, between="; ") if wrong else "equal",
        expected=f"{manifest.rows} rows in {len(expected)} partitions as in manifest {manifest.generation}",
        next_step="somebody else wrote the table, or files were changed: "
        + (
            f"{roll_back_to(manifest.generation)}; if that fails alike, roll back to an earlier one."
            if check == "target_rows"
            else "clear the run from its first task."
        ),
    )


def check_staging_unchanged(observation: Observation, loaded_at: datetime | None) -> CheckResult:
    """No partition was changed after `loaded_at`, the end of the SQL engine's last statement on staging.

    If `loaded_at` is None, as after a load from files, no partition was changed after the observation. BigQuery gives
    the end of a job in milliseconds, so changes are compared with `loaded_at` in milliseconds.
    """
    until, event = (observation.observed_at, "this check") if loaded_at is None else (loaded_at, "the load")
    late = [p.partition_id for p in observation.partitions if _modified_at(p, loaded_at) > until]
    return make_result(
        "staging_unchanged",
        not late,
        found=f"changed later: {listed(late)}" if late else "no later change",
        expected=f"last change of every partition before {until:%Y-%m-%d %H:%M:%S} UTC, the time of {event}",
        next_step="somebody else writes staging: find it in the job list, wait for it or stop it, then clear the run "
        "from its first task.",
    )


def _modified_at(partition: PartitionMetadata, loaded_at: datetime | None) -> datetime:
    """When the partition was last changed; in milliseconds if this is compared with `loaded_at`."""
    return partition.last_modified_at if loaded_at is None else to_milliseconds(partition.last_modified_at)


def check_expiration(check: str, table: TableMetadata, retention_days: int) -> CheckResult:
    """The table's partition expiration is the feed's retention. `check`: the name of the check."""
    found = table.expiration_days
    return make_result(
        check,
        found == retention_days,
        found="never" if found is None else f"after {found:g} days",
        expected=f"after {retention_days} days",
        next_step=f"ALTER TABLE {table.name} SET OPTIONS (partition_expiration_days = {retention_days}).",
    )


def check_overdue_partitions(observation: Observation, retention_days: int) -> CheckResult:
    """No partition still exists a day after it expired. Otherwise the check only warns, because BigQuery may take days
    to delete expired partitions.
    """
    starts = sorted(start for start in map(_partition_start, observation.partitions) if start)
    expired_before = observation.observed_at - timedelta(days=retention_days) - EXPIRATION_TOLERANCE
    days = [start.date() for start in starts]
    overdue = [start.date() for start in starts if start < expired_before]
    return make_result(
        "overdue_partitions",
        not overdue,
        found=f"{len(overdue)} overdue, oldest {overdue[0]}" if overdue else f"oldest {days[0] if days else 'none'}",
        expected=f"no partition older than {retention_days} days",
        next_step="BigQuery deletes expired partitions by itself; if this stays, check the table's expiration setting.",
        otherwise=Level.WARN,
    )
