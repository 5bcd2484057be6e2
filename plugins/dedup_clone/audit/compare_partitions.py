"""Compares partitions of target with the published files, within the day's budget, and records the outcomes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date

from dedup_clone.audit.choose_partitions import auditable_dates
from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.contract.billing import MIB, MIN_BYTES_BILLED
from dedup_clone.contract.errors import CheckFailed, ContractViolation, JobFailed, LostRace
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.attempt_jobs import find_step_job, with_billing_limit
from dedup_clone.publish.partition_comparison import compare_with_files, comparison_bytes, read_comparison
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, AuditRecord, AuditsFile, PartitionComparison

_UNREADABLE = ("invalid", "notFound")  # BigQuery's reasons when it cannot read a file


@dataclass(frozen=True)
class _LiveTarget:
    """Target with the committed generation. `identity`: a value that changes when target is replaced."""

    generation: int
    identity: tuple[object, ...]


def compare_partitions(services: Services, dates: tuple[date, ...], run_id: str) -> tuple[AuditRecord, ...]:
    """Compare the partitions of `dates`, in order, until `partitions_per_day` are done or the budget ends.

    Records each outcome in AUDITS and index.json. The budget ends when the rest of the day's bytes does not suffice for
    the next partition. `run_id`: id of the DAG run, by which a retried task finds its queries.

    Raises CheckFailed, after recording, if a partition is unequal, and if the budget does not suffice for any date.
    Raises LostRace if target does not hold the committed generation (as between a swap and its commit), may hold rows
    of an uncommitted attempt, or was replaced meanwhile; ContractViolation if a file cannot be read; JobFailed if a
    query failed; OutcomeUnknown if too many queries of a partition failed.
    """
    records = list[AuditRecord]()
    for day in dates:
        if _compared(records) == services.feed.content_audit.partitions_per_day:
            break
        record = _audit_partition(services, day, run_id)
        if record is None:
            break
        records.append(record)
    _store(services, records)
    if not _compared(records):
        sizes = ", ".join(f"{r.date}: {r.bytes_billed}" for r in records) or "none"
        raise CheckFailed(
            f"No partition was audited: content_audit.bytes_per_day is [{services.feed.content_audit.bytes_per_day}], "
            f"of which [{_billed_today(services)}] are spent today; partitions larger than a whole day's budget: "
            f"{sizes}. Raise this budget in the feed's file, or wait until tomorrow (UTC)."
        )
    unequal = [describe(record) for record in records if record.outcome is AuditOutcome.UNEQUAL]
    if unequal:
        raise CheckFailed(
            "Target does not hold what was published:\n  " + "\n  ".join(unequal) + "\n"
            "Replay the live snapshot (it loads staging anew from the files), then audit this date again; "
            "see content_unequal in the runbook."
        )
    return tuple(records)


def describe(record: AuditRecord) -> str:
    """The outcome as text; if it is UNEQUAL, with what differs."""
    if record.comparison is None:
        return f"partition {record.date} was skipped: its [{record.bytes_billed}] bytes exceed a day's budget"
    if record.outcome is AuditOutcome.EQUAL:
        return f"partition {record.date} is equal: {record.comparison.rows} rows, {record.bytes_billed} bytes billed"
    return f"partition {record.date} of generation {record.generation}: {record.comparison.difference}"


def _compared(records: list[AuditRecord]) -> int:
    return sum(record.comparison is not None for record in records)


def _store(services: Services, records: list[AuditRecord]) -> None:
    if not records:
        return
    newest = services.manifests.read(max(record.generation for record in records))
    retained = auditable_dates(newest, services.now()) | {record.date for record in records}
    AuditsFile(services.store, services.feed.feed).change(
        lambda audits: audits.with_records(tuple(records), retained=retained)
    )
    for record in records:
        services.log(f"audit: {describe(record)}", generation=record.generation)
    try_refresh_index(services)


def _audit_partition(services: Services, day: date, run_id: str) -> AuditRecord | None:
    """Compare one partition. Returns None if the rest of today's budget does not suffice."""
    live = _live_target(services)
    manifest = services.manifests.read(live.generation)
    size = _bytes_billed(comparison_bytes(services, services.names, manifest.table.partition_column, [day]))
    # After target was replaced, the query has another id, even if the generation is the same.
    digest = hashlib.sha256(f"{run_id} {live.identity}".encode()).hexdigest()[:12]
    job = find_step_job(services, f"{live.generation:08d}-{digest}-{day:%Y%m%d}", "audit")
    if job.metadata is None:
        if size > services.feed.content_audit.bytes_per_day:
            return AuditRecord(day, live.generation, AuditOutcome.OVER_BUDGET, services.now(), None, size)
        budget_left = services.feed.content_audit.bytes_per_day - _billed_today(services)
        if size > budget_left:
            return None
        query = compare_with_files(services, manifest.table, day, _uris(services, manifest, day))
        services.warehouse.jobs.start(job.job_id, with_billing_limit(query, budget_left))
    found, billed = _wait_for_result(services, job.job_id, day)
    if _live_target(services) != live:
        raise LostRace(f"Target was replaced while partition [{day}] was compared: this task's next try repeats it.")
    outcome = AuditOutcome.EQUAL if found.is_equal else AuditOutcome.UNEQUAL
    return AuditRecord(day, live.generation, outcome, services.now(), found, billed)


def _bytes_billed(bytes_read: int) -> int:
    """The bytes that BigQuery bills for reading both sides: of each whole MiB, and at least ten."""
    return 2 * max(MIN_BYTES_BILLED, -(-bytes_read // (2 * MIB)) * MIB)


def _uris(services: Services, manifest: Manifest, day: date) -> list[str]:
    """The URIs of the generation's files with rows of the date. Raises LostRace if there are none."""
    files = services.manifests.committed_files(manifest.generation)
    uris = [f"{manifest.data_folder}{file.path}" for file in (files.files if files else ()) if file.date == day]
    if not uris:
        raise LostRace(
            f"Generation [{manifest.generation}] became live meanwhile and has no files of [{day}]: retry the task."
        )
    return uris


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


def _wait_for_result(services: Services, job_id: str, day: date) -> tuple[PartitionComparison, int]:
    """Wait for the query and record the bytes billed for it. Returns its result, and these bytes."""
    try:
        services.warehouse.jobs.wait(job_id, poll_s=services.job_poll_s)
    except JobFailed as error:
        if error.reason not in _UNREADABLE:
            raise
        raise ContractViolation(
            f"BigQuery cannot read the published files of [{day}]: {error}. If a publish pruned their generation "
            f"meanwhile, trigger the audit again; else restore the file from its versions."
        ) from error
    job = services.warehouse.job(job_id)
    billed = 0 if job is None else job.bytes_billed
    today = services.now().date()
    AuditsFile(services.store, services.feed.feed).change(lambda audits: audits.with_job(today, job_id, billed))
    return read_comparison(services, job_id), billed


def _billed_today(services: Services) -> int:
    return AuditsFile(services.store, services.feed.feed).read().billed_on(services.now().date())
