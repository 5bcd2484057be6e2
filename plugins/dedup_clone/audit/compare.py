"""Last step of an audit: are both sides equal? Keeps the result, which the watchdog and the page read."""

from __future__ import annotations

from datetime import date

from dedup_clone.audit.rotation import auditable_dates
from dedup_clone.audit.target import TargetPartition
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.page_index import tell_page
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditOutcome, AuditRecord, AuditsFile, PartitionFingerprint


def compare_fingerprints(
    services: Services, partitions: tuple[TargetPartition, ...], published: dict[date, PartitionFingerprint]
) -> tuple[AuditRecord, ...]:
    """Record and return the outcome of each partition. Raises CheckFailed, after recording, when one is unequal."""
    records = tuple(_record(services, partition, published.get(partition.date)) for partition in partitions)
    generation = services.current.read().generation
    kept = {record.date for record in records}
    if generation is not None:
        kept |= auditable_dates(services.manifests.read(generation), services.now())
    AuditsFile(services.store, services.feed.feed).change(lambda audits: audits.with_records(records, kept))
    for record in records:
        services.fact(f"audit: {describe(record)}", generation=record.generation)
    tell_page(services)
    unequal = [describe(r) for r in records if r.outcome is AuditOutcome.UNEQUAL]
    if unequal:
        raise CheckFailed(
            "Target does not hold what was published:\n  " + "\n  ".join(unequal) + "\n"
            "Replay the live snapshot (it loads staging anew from the files), then audit this date again; "
            "see content_unequal in the runbook."
        )
    return records


def describe(record: AuditRecord) -> str:
    """The outcome in words, with the evidence."""
    if record.outcome is AuditOutcome.EQUAL:
        rows = record.found.rows if record.found else 0
        return f"partition {record.date} is equal: {rows} rows, {record.bytes_billed} bytes billed"
    if record.outcome is AuditOutcome.OVER_BUDGET:
        return f"partition {record.date} was passed over: its [{record.bytes_billed}] bytes exceed a day's budget"
    return (
        f"partition {record.date} of generation {record.generation}: found [{_text(record.found)}] in target, "
        f"expected [{_text(record.published)}] as in the files"
    )


def _record(services: Services, partition: TargetPartition, published: PartitionFingerprint | None) -> AuditRecord:
    if partition.found is None or published is None:
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


def _text(fingerprint: PartitionFingerprint | None) -> str:
    if fingerprint is None:
        return "nothing"
    return f"{fingerprint.rows} rows, fingerprint {fingerprint.exclusive_or & (1 << 64) - 1:016x}"
