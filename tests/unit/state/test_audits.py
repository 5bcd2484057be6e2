"""What the record of audits counts and forgets."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits, PartitionFingerprint

DAY = date(2026, 6, 15)
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def record(day: date, outcome: AuditOutcome = AuditOutcome.EQUAL, hours_ago: int = 0) -> AuditRecord:
    held = PartitionFingerprint(3, -(2**63), 2**90)
    return AuditRecord(day, 7, outcome, NOW - timedelta(hours=hours_ago), held, None, 10)


def test_it_keeps_sums_of_more_than_64_bits_exactly() -> None:
    audits = Audits(DAY, {"job": 5}, (record(DAY),))
    assert from_json(Audits, to_json(audits), where="test") == audits


def test_a_job_counts_once_and_only_on_its_day() -> None:
    audits = Audits(DAY, {}, ()).with_job(DAY, "a", 10).with_job(DAY, "a", 10).with_job(DAY, "b", 5)
    assert audits.billed_on(DAY) == 15
    assert audits.billed_on(DAY + timedelta(days=1)) == 0
    assert audits.with_job(DAY + timedelta(days=1), "c", 1).jobs == {"c": 1}


def test_the_last_audit_is_one_that_compared_something() -> None:
    passed_over = record(DAY, AuditOutcome.OVER_BUDGET)
    compared = record(DAY - timedelta(days=1), hours_ago=5)
    assert Audits(DAY, {}, (compared, passed_over)).last == compared
    assert Audits(DAY, {}, (passed_over,)).last is None


def test_new_records_replace_older_ones_and_dates_that_are_gone_are_dropped() -> None:
    gone, kept, new = record(date(2024, 1, 1)), record(DAY, AuditOutcome.UNEQUAL), record(DAY)
    assert Audits(DAY, {}, (gone, kept)).with_records((new,), retained={DAY}).records == (new,)


def test_a_partition_that_was_unequal_stays_so_until_it_is_compared_again() -> None:
    unequal, passed_over, equal = (record(DAY, AuditOutcome(name)) for name in ("unequal", "over_budget", "equal"))
    found = Audits(DAY, {}, (unequal,)).with_records((passed_over,), retained={DAY})
    assert found.records == (unequal,)
    assert found.with_records((equal,), retained={DAY}).records == (equal,)
