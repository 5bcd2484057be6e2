"""Last task of an audit: compares the fingerprints and records the outcome for the watchdog and the page."""

from __future__ import annotations

from datetime import date

from dedup_clone.audit.choose_partitions import auditable_dates
from dedup_clone.audit.fingerprint_target import TargetPartition
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, AuditRecord, AuditsFile, PartitionFingerprint


def compare_fingerprints(
    services: Services, partitions: tuple[TargetPartition, ...], published: dict[date, PartitionFingerprint]
) -> tuple[AuditRecord, ...]:
    """Record the outcome of each partition in AUDITS and index.json, and return these records.

    Raises CheckFailed, after recording, if a partition is unequal.

    `partitions`: those of target. `published`: for each date the fingerprint of its rows in the generation's files.
    """
    records = tuple(_record(services, partition, published.get(partition.date)) for partition in partitions)
    generation = services.current.read().generation
    retained = {record.date for record in records}
    if generation is not None:
        retained |= auditable_dates(services.manifests.read(generation), services.now())
    AuditsFile(services.store, services.feed.feed).change(
        lambda audits: audits.with_records(records, retained=retained)
    )
    for record in records:
        services.log(f"audit: {describe(record)}", generation=record.generation)
    try_refresh_index(services)
    unequal = [describe(r) for r in records if r.outcome is AuditOutcome.UNEQUAL]
    if unequal:
        raise CheckFailed(
            "Target does not hold what was published:\n  " + "\n  ".join(unequal) + "\n"
            "Replay the live snapshot (it loads staging anew from the files), then audit this date again; "
            "see content_unequal in the runbook."
        )
    return records


def describe(record: AuditRecord) -> str:
    """The outcome as text; if it is UNEQUAL, with what was found and expected."""
    if record.outcome is AuditOutcome.EQUAL:
        rows = record.found.rows if record.found else 0
        return f"partition {record.date} is equal: {rows} rows, {record.bytes_billed} bytes billed"
    if record.outcome is AuditOutcome.OVER_BUDGET:
        return f"partition {record.date} was skipped: its [{record.bytes_billed}] bytes exceed a day's budget"
    return (
        f"partition {record.date} of generation {record.generation}: found [{_summary(record.found)}] in target, "
        f"expected [{_summary(record.published)}] as in the files"
    )


def _record(services: Services, partition: TargetPartition, published: PartitionFingerprint | None) -> AuditRecord:
    if partition.found is None:
        outcome = AuditOutcome.OVER_BUDGET
    else:
        outcome = AuditOutcome.EQUAL if partition.found == published else AuditOutcome.UNEQUAL
    return AuditRecord(
        date=partition.date,
        generation=partition.generation,
        outcome=outcome,
        audited_at=services.now(),
        published=published,
        found=partition.found,
        bytes_billed=partition.bytes_billed,
    )


def _summary(fingerprint: PartitionFingerprint | None) -> str:
    if fingerprint is None:
        return "nothing"
    unsigned = fingerprint.exclusive_or & (1 << 64) - 1
    return f"{fingerprint.rows} rows, fingerprint {unsigned:016x}, sum {fingerprint.total}"
