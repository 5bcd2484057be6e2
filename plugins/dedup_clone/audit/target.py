"""Second step of an audit: what does target hold? One query a partition, while target is the committed generation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.checks.tables import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.contract.errors import CheckFailed, LostRace, OutcomeUnknown
from dedup_clone.publish.jobs import FAILED_JOBS_TOLERATED, attempt_job_id, query_configuration
from dedup_clone.publish.services import Services
from dedup_clone.settings.content_audit import SMALLEST_QUERY_BYTES
from dedup_clone.state.audits import AuditOutcome, AuditRecord, AuditsFile, PartitionFingerprint

STATEMENT = "checks/content_audit.sql"
ROUNDS = 3
MIB = 1 << 20


@dataclass(frozen=True)
class TargetPartition:
    """A partition of target at a time when target was `generation`; `found` is None when it is over the budget."""

    date: date
    generation: int
    found: PartitionFingerprint | None
    bytes_billed: int


@dataclass(frozen=True)
class _Live:
    """The committed generation, and what tells that target is it: `identity` changes with every replacement."""

    generation: int
    identity: tuple[object, ...]


def fingerprint_target(services: Services, dates: tuple[date, ...], run_id: str) -> tuple[TargetPartition, ...]:
    """Ask BigQuery for the fingerprints of the first of `dates` that the day's budget has room for.

    Raises CheckFailed when the budget has room for none, JobFailed, and LostRace when target is not the committed
    generation, as during the seconds between a swap and its commit.
    """
    settings, found = services.feed.content_audit, list[TargetPartition]()
    for day in dates:
        if sum(p.found is not None for p in found) == settings.partitions_per_day:
            break
        partition = _one_partition(services, day, run_id)
        if partition is None:
            break
        found.append(partition)
    if not any(p.found is not None for p in found):
        _keep_turns(services, found)
        sizes = ", ".join(f"{p.date}: {p.bytes_billed}" for p in found) or "none was looked at"
        raise CheckFailed(
            f"No partition was audited: content_audit.bytes_per_day is [{settings.bytes_per_day}], of which "
            f"[{_billed(services)}] are spent today; partitions larger than a whole day's budget: {sizes}. "
            f"Raise it in the feed's file, or wait until tomorrow (UTC)."
        )
    return tuple(found)


def _keep_turns(services: Services, passed_over: list[TargetPartition]) -> None:
    """This run compares nothing; the next one begins with other partitions."""
    now = services.now()
    records = tuple(
        AuditRecord(p.date, p.generation, AuditOutcome.OVER_BUDGET, now, None, None, p.bytes_billed)
        for p in passed_over
    )
    AuditsFile(services.store, services.feed.feed).change(
        lambda audits: audits.with_records(records, {r.date for r in (*audits.records, *records)})
    )


def _one_partition(services: Services, day: date, run_id: str) -> TargetPartition | None:
    """None when what is left of today's budget does not do."""
    for _ in range(ROUNDS):
        live = _live(services)
        left = services.feed.content_audit.bytes_per_day - _billed(services)
        configuration = _query(services, live, day, left)
        size = _bill(services.warehouse.jobs.bytes_of(configuration))
        job_id, is_known = _job_id(services, live, day, run_id)
        if not is_known and size > services.feed.content_audit.bytes_per_day:
            return TargetPartition(day, live.generation, None, size)
        if not is_known and size > left:
            return None
        if not is_known:
            services.warehouse.jobs.start(job_id, configuration)
        found = _result(services, job_id)
        if _live(services) == live:
            return TargetPartition(day, live.generation, found, size)
    raise LostRace(f"Target was replaced [{ROUNDS}] times while partition [{day}] was read: retry the task.")


def _bill(bytes_read: int) -> int:
    """BigQuery bills whole megabytes, and no query for less than ten."""
    return max(SMALLEST_QUERY_BYTES, -(-bytes_read // MIB) * MIB)


def _live(services: Services) -> _Live:
    current, table = services.current.read(), services.warehouse.table(services.feed.target)
    labels = {} if table is None else table.labels
    expected = {GENERATION_LABEL: str(current.generation), MANIFEST_LABEL: str(current.manifest_digest)}
    if current.generation is None or table is None or any(labels.get(name) != expected[name] for name in expected):
        raise LostRace(
            f"Target's labels are [{labels}], expected [{expected}] as CURRENT says: a swap is being committed, and "
            f"the next try of this task finds it done. If not, somebody changed target: see the runbook, target_drift."
        )
    return _Live(current.generation, (current.manifest_digest, table.created_at, table.clone_time))


def _query(services: Services, live: _Live, day: date, left: int) -> Mapping[str, Any]:
    manifest = services.manifests.read(live.generation)
    sql = services.warehouse.render(STATEMENT, names=services.names, table=manifest.table)
    parameters = {"audited_date": ("DATE", day.isoformat())}
    return query_configuration(services, "audit", sql, parameters, maximumBytesBilled=str(max(1, left)))


def _job_id(services: Services, live: _Live, day: date, run_id: str) -> tuple[str, bool]:
    """A retried task finds the job that it made, and whether there is one to wait for or to read."""
    attempt = f"{live.generation:08d}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}-{day:%Y%m%d}"
    for number in range(1, FAILED_JOBS_TOLERATED + 1):
        job_id = attempt_job_id(services.feed.feed, attempt, "audit", number)
        known = services.warehouse.job(job_id)
        if known is None or not known.error:
            return job_id, known is not None
    raise OutcomeUnknown(
        f"[{FAILED_JOBS_TOLERATED}] BigQuery jobs of partition [{day}] failed, the last is [{job_id}]: see its error "
        f"(bq show -j), mend it, then trigger the DAG anew."
    )


def _result(services: Services, job_id: str) -> PartitionFingerprint:
    services.warehouse.jobs.wait(job_id, poll_s=services.job_poll_s)
    job = services.warehouse.job(job_id)
    billed = 0 if job is None else job.bytes_billed
    today = services.now().date()
    AuditsFile(services.store, services.feed.feed).change(lambda a: a.with_job(today, job_id, billed))
    (row,) = services.warehouse.jobs.rows(job_id)
    return PartitionFingerprint(int(row["row_count"]), int(row["exclusive_or"]), int(row["total"]))


def _billed(services: Services) -> int:
    return AuditsFile(services.store, services.feed.feed).read().billed_on(services.now().date())
