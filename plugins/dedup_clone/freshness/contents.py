"""Judges whether the partitions that were audited hold what was published."""

from __future__ import annotations

from datetime import datetime

from dedup_clone.freshness.facts import Facts
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.words import clock
from dedup_clone.state.audits import AuditRecord, PartitionFingerprint


def contents_equal(now: datetime, facts: Facts) -> list[Incident]:
    """One incident a partition; it ends when an audit finds the partition equal, or when it has expired."""
    return [
        Incident(
            Kind.CONTENT_UNEQUAL,
            Severity.ALERT,
            since=record.audited_at,
            what=(
                f"partition {record.date} of target did not hold what was published as generation {record.generation}, "
                f"audited {clock(record.audited_at)}: {_difference(record)}."
            ),
            readers_see=f"wrong rows or wrong values on {record.date}",
            next_step="replay the live snapshot, then audit this date again by hand; the runbook has each step.",
            subject=record.date.isoformat(),
        )
        for record in facts.audits.unequal
    ]


def _difference(record: AuditRecord) -> str:
    found, published = _rows(record.found), _rows(record.published)
    if found != published:
        return f"target has {found} rows, the files have {published}"
    return f"both have {found} rows, whose values differ"


def _rows(fingerprint: PartitionFingerprint | None) -> int:
    return 0 if fingerprint is None else fingerprint.rows
