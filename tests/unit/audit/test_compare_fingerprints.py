"""What an audit says of a partition."""

from __future__ import annotations

from datetime import UTC, date, datetime

from dedup_clone.audit.compare_fingerprints import describe
from dedup_clone.state.audits import AuditOutcome, AuditRecord, PartitionFingerprint


def test_an_unequal_partition_shows_the_part_of_the_fingerprint_that_differs() -> None:
    """Two equal rows cancel each other out in the XOR, whichever rows they are."""
    published, found = PartitionFingerprint(2, 0, 14), PartitionFingerprint(2, 0, -6)
    now = datetime(2026, 6, 15, 12, tzinfo=UTC)
    record = AuditRecord(date(2026, 6, 15), 3, AuditOutcome.UNEQUAL, now, published, found, 10)
    assert "found [2 rows, fingerprint 0000000000000000, sum -6]" in describe(record)
    assert "expected [2 rows, fingerprint 0000000000000000, sum 14]" in describe(record)
