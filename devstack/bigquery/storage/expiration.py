"""What a table still holds at a moment: expired partitions and tables are gone for readers at once.

A partition ends when the start of its UTC day plus the expiration has passed. Google's pages disagree on whether
the clock starts at the start or the end of the day; the earlier reading is the stricter one (F12).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

from devstack.bigquery.storage.model import NULL_PARTITION, WHOLE, TableVersion


def partition_day(partition_id: str) -> date | None:
    """None for the partitions that have no day: rows without a date, and an unpartitioned table's rows."""
    if partition_id in (WHOLE, NULL_PARTITION):
        return None
    return datetime.strptime(partition_id, "%Y%m%d").replace(tzinfo=UTC).date()


def partition_end_us(partition_id: str, expiration_ms: int) -> int | None:
    day = partition_day(partition_id)
    if day is None:
        return None
    days = (day - date(1970, 1, 1)).days
    return days * 86_400_000_000 + expiration_ms * 1000


def without_expired(version: TableVersion, now_us: int) -> TableVersion:
    """The same object when nothing has expired."""
    if version.dropped:
        return version
    expires_us = version.settings.expires_us
    if expires_us is not None and expires_us < now_us:
        return replace(version, dropped=True, partitions={})
    expiration_ms = version.settings.partition_expiration_ms
    if expiration_ms is None:
        return version
    expired = set()
    for partition_id in version.partitions:
        end_us = partition_end_us(partition_id, expiration_ms)
        if end_us is not None and end_us < now_us:
            expired.add(partition_id)
    if not expired:
        return version
    return replace(version, partitions={k: p for k, p in version.partitions.items() if k not in expired})
