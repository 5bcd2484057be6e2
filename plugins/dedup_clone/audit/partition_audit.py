"""The content audit: selects partitions of target, compares them with the published files, and records the outcomes.

Unequal partitions come first, then those that were not audited for the longest time, within the day's budget.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from dedup_clone.checks.check_result import listed
from dedup_clone.checks.partition_checks import EXPIRATION_TOLERANCE
from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.contract.attempt import URIS_PER_JOB
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation, JobFailed, LostRace
from dedup_clone.contract.manifest import FileList, Manifest
from dedup_clone.publish.attempt_jobs import find_step_job, with_billing_limit
from dedup_clone.publish.partition_comparison import compare_with_files, comparison_bytes, read_comparison
from dedup_clone.publish.publish_costs import billed_bytes
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap import is_loading_target
from dedup_clone.state.audits import AuditRecord, Audits, PartitionComparison, change_audits, read_audits

# An audit skips partitions that are too large for what is left of the day's budget. So it gets this many times
# `partitions_per_day` dates.
DATES_PER_AUDITED = 10
# An audit takes less time than this. So partitions that may expire within this time are not audited.
MAX_AUDIT_DURATION = timedelta(days=1)
_UNREADABLE = ("invalid", "notFound")  # BigQuery's reasons when it cannot read a file


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
    current = services.current.read()
    if current.refusal(services.environment):  # both would pay for the query, from one budget
        return ChosenPartitions((), f"environment [{current.environment}] publishes the feed, and audits it")
    generation = current.generation
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
    ordered = order_by_last_audit(dates, read_audits(services.store, services.feed.feed))
    return ChosenPartitions(ordered[: services.feed.content_audit.partitions_per_day * DATES_PER_AUDITED])


def auditable_dates(manifest: Manifest, now: datetime) -> set[date]:
    """The generation's dates that have rows and will not expire while they are audited."""
    lifetime = timedelta(days=manifest.table.retention_days) - EXPIRATION_TOLERANCE - MAX_AUDIT_DURATION
    days = {entry.date: manifest.table.partition_start(entry.date) for entry in manifest.dates_with_rows}
    return {day for day, first in days.items() if datetime.combine(first, time(), UTC) + lifetime > now}


def order_by_last_audit(dates: set[date], audits: Audits) -> tuple[date, ...]:
    """Unequal dates, then dates never audited (newest first), then the others (longest ago first)."""
    records = {record.date: record for record in audits.records}

    def priority(day: date) -> tuple[bool, datetime]:
        record = records.get(day)
        if record is None:
            return True, datetime.min.replace(tzinfo=UTC)
        return record.comparison.is_equal, record.audited_at

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


@dataclass(frozen=True)
class _LiveTarget:
    """Target with the committed generation. `identity`: a value that changes when target is replaced."""

    generation: int
    identity: tuple[object, ...]


def compare_partitions(services: Services, dates: tuple[date, ...], run: str) -> tuple[AuditRecord, ...]:
    """Compare the partitions of `dates`, in order, until `partitions_per_day` are done.

    Skips partitions for which the rest of the day's bytes does not suffice. Records each comparison in AUDITS. `run`:
    names the DAG run, by which a retried task finds its queries.

    Raises CheckFailed, after recording, if a partition is unequal, and if the budget does not suffice for any date.
    Raises LostRace if target does not hold the committed generation (as between a swap and its commit), may hold rows
    of an uncommitted attempt, or was replaced meanwhile; ContractViolation if a file cannot be read; JobFailed if a
    query failed; OutcomeUnknown if too many queries of a partition failed.
    """
    records, skipped = list[AuditRecord](), dict[date, int]()
    for day in dates:
        if len(records) == services.feed.content_audit.partitions_per_day:
            break
        record = _audit_partition(services, day, run, skipped)
        if record is not None:
            records.append(record)
    if not records:
        sizes = listed([f"{day}: {size}" for day, size in skipped.items()])
        raise CheckFailed(
            f"No partition was audited: content_audit.bytes_per_day is [{services.feed.content_audit.bytes_per_day}], "
            f"of which [{_billed_today(services)}] are spent today, and the partitions need: {sizes}. Raise this "
            f"budget in the feed's file, or wait until tomorrow (UTC)."
        )
    _store(services, records)
    unequal = [describe(record) for record in records if not record.comparison.is_equal]
    if unequal:
        if services.current.read().intent is None:  # else a later audit does it, which begins with unequal partitions
            services.current.forget_staging()  # target is a clone of it
        raise CheckFailed(
            "Target does not hold what was published:\n  " + "\n  ".join(unequal) + "\n"
            "Replay the live snapshot (it loads all of staging from the files), then audit this date again; "
            "see content_unequal in the runbook."
        )
    return tuple(records)


def describe(record: AuditRecord) -> str:
    """The outcome as text; if the partition is unequal, with what differs."""
    if record.comparison.is_equal:
        return f"partition {record.date} is equal: {record.comparison.rows} rows"
    return f"partition {record.date} of generation {record.generation}: {record.comparison.difference}"


def _store(services: Services, records: list[AuditRecord]) -> None:
    newest = services.manifests.read(max(record.generation for record in records))
    retained = auditable_dates(newest, services.now()) | {record.date for record in records}
    change_audits(
        services.store, services.feed.feed, lambda audits: audits.with_records(tuple(records), retained=retained)
    )
    for record in records:
        services.log(f"audit: {describe(record)}", generation=record.generation)


def _audit_partition(services: Services, day: date, run: str, skipped: dict[date, int]) -> AuditRecord | None:
    """Compare one partition. Returns None, and adds its bytes to `skipped`, if today's budget does not suffice."""
    live = _live_target(services)
    manifest = services.manifests.read(live.generation)
    side = comparison_bytes(services, manifest.table, [day]) / 2
    size = billed_bytes(side, side)
    # After target was replaced, the query has another id, even if the generation is the same.
    digest = hashlib.sha256(f"{run} {live.identity}".encode()).hexdigest()[:12]
    job = find_step_job(services, f"{live.generation:08d}-{digest}-{day:%Y%m%d}", "audit")
    if job.metadata is None:
        budget_left = services.feed.content_audit.bytes_per_day - _billed_today(services)
        if size > budget_left:
            services.log(
                f"audit: partition {day} is skipped: its [{size}] bytes exceed [{budget_left}], the budget left"
            )
            skipped[day] = size
            return None
        query = compare_with_files(services, manifest.table, day, _uris(services, manifest, day))
        services.warehouse.jobs.start(job.job_id, with_billing_limit(query, budget_left))
    found = _wait_for_result(services, job.job_id, day)
    if _live_target(services) != live:
        raise LostRace(f"Target was replaced while partition [{day}] was compared: this task's next try repeats it.")
    return AuditRecord(day, live.generation, services.now(), found)


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
    if is_loading_target(services, current.intent):
        raise LostRace("A publish loads target: this task's next try will find that done.")
    labels = {} if table is None else table.labels
    expected = {GENERATION_LABEL: str(current.generation), MANIFEST_LABEL: str(current.manifest_digest)}
    if current.generation is None or table is None or any(labels.get(name) != expected[name] for name in expected):
        raise LostRace(
            f"Target's labels are [{labels}], expected [{expected}] as CURRENT says: a swap is being committed, and "
            f"this task's next try will find it done. If not, somebody changed target: see the runbook, target_drift."
        )
    return _LiveTarget(current.generation, (current.manifest_digest, table.created_at, table.clone_time))


def _wait_for_result(services: Services, job_id: str, day: date) -> PartitionComparison:
    """Wait for the query, record the bytes billed for it, and return its result."""
    try:
        services.warehouse.wait_for_job(job_id, poll_s=services.job_poll_s)
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
    change_audits(services.store, services.feed.feed, lambda audits: audits.with_job(today, job_id, billed))
    return read_comparison(services, job_id)


def _billed_today(services: Services) -> int:
    return read_audits(services.store, services.feed.feed).billed_on(services.now().date())
