"""The order in which partitions are audited, and which are left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.audit.partition_audit import auditable_dates, order_by_last_audit
from dedup_clone.contract.table import PartitionBy
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits
from testkit.table_contracts import PRODUCTS

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAYS = [date(2026, 6, day) for day in range(1, 6)]


def audited(day: date, days_ago: int, outcome: AuditOutcome = AuditOutcome.EQUAL) -> AuditRecord:
    return AuditRecord(day, 1, outcome, NOW - timedelta(days=days_ago), None, 0)


def audit_order(*records: AuditRecord) -> list[int]:
    return [day.day for day in order_by_last_audit(set(DAYS), Audits(NOW.date(), {}, records))]


def test_unequal_ones_come_first_then_those_never_audited_then_the_longest_ago() -> None:
    assert audit_order() == [5, 4, 3, 2, 1]
    assert audit_order(audited(DAYS[4], 1), audited(DAYS[3], 2)) == [3, 2, 1, 4, 5]
    assert audit_order(audited(DAYS[0], 1, AuditOutcome.UNEQUAL), audited(DAYS[4], 9)) == [1, 4, 3, 2, 5]
    assert audit_order(audited(DAYS[2], 1, AuditOutcome.OVER_BUDGET)) == [5, 4, 2, 1, 3]


@pytest.mark.parametrize(("retention_days", "expected"), [(730, [1, 2, 3, 4]), (14, [4]), (13, []), (1, [])])
def test_partitions_that_end_soon_or_are_empty_are_left_out(retention_days: int, expected: list[int]) -> None:
    entries = [SimpleNamespace(date=day, rows=rows) for day, rows in zip(DAYS, (1, 1, 1, 1, 0), strict=True)]
    manifest: Any = SimpleNamespace(table=replace(PRODUCTS, retention_days=retention_days), dates=entries)
    assert sorted(day.day for day in auditable_dates(manifest, NOW)) == expected


@pytest.mark.parametrize(("retention_days", "expected"), [(17, [1, 2]), (16, [])])
def test_dates_whose_month_ends_soon_are_left_out(retention_days: int, expected: list[int]) -> None:
    entries = [SimpleNamespace(date=date(2026, 6, day), rows=1) for day in (1, 2)]
    table = replace(PRODUCTS, retention_days=retention_days, partition_by=PartitionBy.MONTH)
    manifest: Any = SimpleNamespace(table=table, dates=entries)
    assert sorted(day.day for day in auditable_dates(manifest, NOW)) == expected
