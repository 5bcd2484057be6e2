"""Second task of an audit: fingerprints target, with one query per partition, within the day's budget."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.contract.billing import MIB, MIN_BYTES_BILLED
from dedup_clone.contract.errors import CheckFailed, LostRace, OutcomeUnknown
from dedup_clone.publish.attempt_jobs import MAX_FAILED_JOBS, attempt_job_id, query_configuration, with_billing_limit
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, AuditRecord, AuditsFile, PartitionFingerprint

SQL_FILE = "checks/content_audit.sql"
MAX_TRIES = 3  # readings of one partition, each of which a publish may make useless


@dataclass(frozen=True)
class TargetPartition:
    """A partition of target while `generation` was live.

    `found`: its fingerprint; None if the partition is larger than a whole day's budget. `bytes_billed`: what BigQuery
    bills for reading the partition, estimated by a dry run.
    """

    date: date
    generation: int
    found: PartitionFingerprint | None
    bytes_billed: int


@dataclass(frozen=True)
class _LiveTarget:
    """Target with the committed generation. `identity`: a value that changes when target is replaced."""

    generation: int
    identity: tuple[object, ...]


def fingerprint_target(services: Services, dates: tuple[date, ...], run_id: str) -> tuple[TargetPartition, ...]:
    """Fingerprint the partitions of `dates`, in order, until `partitions_per_day` are done or the budget ends.

    The budget ends when the rest of the day's bytes does not suffice for the next partition. `run_id`: id of the
    DAG run, by which a retried task finds its queries.

    Raises CheckFailed if the budget does not suffice for any date, JobFailed if a query failed, and OutcomeUnknown if
    too many queries of a partition failed. Raises LostRace if target does not hold the committed generation (as between
    a swap and its commit), or was replaced during each of MAX_TRIES readings.
    """
    settings, partitions = services.feed.content_audit, list[TargetPartition]()
    for day in dates:
        if sum(p.found is not None for p in partitions) == settings.partitions_per_day:
            break
        partition = _fingerprint_partition(services, day, run_id)
        if partition is None:
            break
        partitions.append(partition)
    if not any(p.found is not None for p in partitions):
        _record_skipped(services, partitions)
        sizes = ", ".join(f"{p.date}: {p.bytes_billed}" for p in partitions) or "none"
        raise CheckFailed(
            f"No partition was audited: content_audit.bytes_per_day is [{settings.bytes_per_day}], of which "
            f"[{_billed_today(services)}] are spent today; partitions larger than a whole day's budget: {sizes}. "
            f"Raise this budget in the feed's file, or wait until tomorrow (UTC)."
        )
    return tuple(partitions)


def _record_skipped(services: Services, skipped: list[TargetPartition]) -> None:
    """Record the partitions that exceed a day's budget as audited now, so that the next run begins with others.

    A partition that was unequal before stays recorded as unequal.
    """
    now = services.now()
    records = tuple(
        AuditRecord(p.date, p.generation, AuditOutcome.OVER_BUDGET, now, None, None, p.bytes_billed) for p in skipped
    )
    AuditsFile(services.store, services.feed.feed).change(
        # `retained` names every date, so that no record is dropped
        lambda audits: audits.with_records(records, retained={r.date for r in (*audits.records, *records)})
    )


def _fingerprint_partition(services: Services, day: date, run_id: str) -> TargetPartition | None:
    """Fingerprint one partition. Returns None if the rest of today's budget does not suffice."""
    for _ in range(MAX_TRIES):
        live = _live_target(services)
        budget_left = services.feed.content_audit.bytes_per_day - _billed_today(services)
        configuration = _audit_query(services, live, day)
        size = _bytes_billed(services.warehouse.jobs.dry_run_bytes(configuration))
        job_id, exists = _job_id(services, live, day, run_id)
        if not exists and size > services.feed.content_audit.bytes_per_day:
            return TargetPartition(day, live.generation, None, size)
        if not exists and size > budget_left:
            return None
        if not exists:
            services.warehouse.jobs.start(job_id, with_billing_limit(configuration, budget_left))
        found = _wait_for_result(services, job_id)
        if _live_target(services) == live:
            return TargetPartition(day, live.generation, found, size)
    raise LostRace(f"Target was replaced [{MAX_TRIES}] times while partition [{day}] was read: retry the task.")


def _bytes_billed(bytes_read: int) -> int:
    """The bytes that BigQuery bills for a query that reads `bytes_read`: whole MiB, and at least ten."""
    return max(MIN_BYTES_BILLED, -(-bytes_read // MIB) * MIB)


def _live_target(services: Services) -> _LiveTarget:
    """Raises LostRace if target does not hold exactly the committed generation."""
    current, table = services.current.read(), services.warehouse.table(services.feed.target)
    labels = {} if table is None else table.labels
    expected = {GENERATION_LABEL: str(current.generation), MANIFEST_LABEL: str(current.manifest_digest)}
    if current.generation is None or table is None or any(labels.get(name) != expected[name] for name in expected):
        raise LostRace(
            f"Target's labels are [{labels}], expected [{expected}] as CURRENT says: a swap is being committed, and "
            f"this task's next try will find it done. If not, somebody changed target: see the runbook, target_drift."
        )
    return _LiveTarget(current.generation, (current.manifest_digest, table.created_at, table.clone_time))


def _audit_query(services: Services, live: _LiveTarget, day: date) -> Mapping[str, Any]:
    manifest = services.manifests.read(live.generation)
    sql = services.warehouse.render(SQL_FILE, names=services.names, table=manifest.table)
    parameters = {"audited_date": ("DATE", day.isoformat())}
    return query_configuration(services, "audit", sql, parameters)


def _job_id(services: Services, live: _LiveTarget, day: date, run_id: str) -> tuple[str, bool]:
    """The id of this run's query for the date, and whether the job exists, as it may when the task is retried.

    After target was replaced, the query has another id, even if the generation is the same.
    """
    digest = hashlib.sha256(f"{run_id} {live.identity}".encode()).hexdigest()[:12]
    attempt = f"{live.generation:08d}-{digest}-{day:%Y%m%d}"
    for number in range(1, MAX_FAILED_JOBS + 1):
        job_id = attempt_job_id(services.feed.feed, attempt, "audit", number)
        job = services.warehouse.job(job_id)
        if job is None or not job.error:
            return job_id, job is not None
    raise OutcomeUnknown(
        f"[{MAX_FAILED_JOBS}] BigQuery jobs of partition [{day}] failed, the last is [{job_id}]: see its error "
        f"(bq show -j), fix it, then trigger the DAG again."
    )


def _wait_for_result(services: Services, job_id: str) -> PartitionFingerprint:
    """Wait for the query, record the bytes billed for it and return its result."""
    services.warehouse.jobs.wait(job_id, poll_s=services.job_poll_s)
    job = services.warehouse.job(job_id)
    billed = 0 if job is None else job.bytes_billed
    today = services.now().date()
    AuditsFile(services.store, services.feed.feed).change(lambda a: a.with_job(today, job_id, billed))
    (row,) = services.warehouse.jobs.rows(job_id)
    return PartitionFingerprint(int(row["row_count"]), int(row["exclusive_or"]), int(row["total"]))


def _billed_today(services: Services) -> int:
    return AuditsFile(services.store, services.feed.feed).read().billed_on(services.now().date())
