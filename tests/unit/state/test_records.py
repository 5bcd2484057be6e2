"""Which partitions are audited next, versions of records, and the footers of files."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import IO, Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.cloud.storage.bucket import Bucket

from dedup_clone.audit.partition_audit import auditable_dates, order_by_last_audit
from dedup_clone.contract.table import PartitionBy
from dedup_clone.state.audits import AuditRecord, Audits, PartitionComparison
from dedup_clone.state.landing import read_footers
from dedup_clone.state.store import ObjectStore
from testkit.table_contracts import PRODUCTS
from tests.unit.checks.builders import entry, manifest

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


# -- When the last version of a deleted object is gone ("Object Lifecycle Management", conditions) --

NONCURRENT = {"daysSinceNoncurrentTime": 30}


def rule(condition: dict[str, Any], action: str = "Delete") -> dict[str, Any]:
    return {"action": {"type": action, "storageClass": "NEARLINE"}, "condition": condition}


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([NONCURRENT, {"daysSinceNoncurrentTime": 90, "isLive": False}], 31),
        ([{**NONCURRENT, "matchesPrefix": ["tmp/"]}], None),
        ([{**NONCURRENT, "numNewerVersions": 3}, {"daysSinceNoncurrentTime": 60}], 61),
        ([{"age": 30}], None),
    ],
)
def test_versions_stay_until_the_first_rule_deletes_them_and_then_as_long_as_deleted_objects(
    rules: list[dict[str, Any]], days: int | None
) -> None:
    properties = {
        "versioning": {"enabled": True},
        "lifecycle": {"rule": [rule(NONCURRENT, action="SetStorageClass"), *map(rule, rules)]},
        "softDeletePolicy": {"retentionDurationSeconds": "86400"},
    }
    client = Mock()
    bucket = Bucket(client, "state")
    bucket._set_properties(properties)
    bucket.reload = Mock()  # type: ignore[method-assign]
    client.bucket.return_value = bucket
    end = ObjectStore(client, "state").versions_end(NOW)
    assert (None if end is None else (end - NOW) // timedelta(days=1)) == days


# -- Footers: a file is called broken only if its bytes cannot be parsed, never because storage failed --


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2], "s": [{"a": 1}, None], "l": [["x"], []]}), buffer)
    return buffer.getvalue()


class CutConnection(io.BytesIO):
    def read(self, *_: Any) -> bytes:
        raise ConnectionResetError("the connection was cut")


class Answers:
    """A store whose answers are given, one for each time that the object is opened."""

    def __init__(self, *answers: bytes | IO[bytes]) -> None:
        self.answers = list(answers)

    def open(self, name: str) -> IO[bytes]:
        answer = self.answers.pop(0)
        return io.BytesIO(answer) if isinstance(answer, bytes) else answer

    @property
    def store(self) -> ObjectStore:
        return cast("ObjectStore", self)


def test_the_columns_of_a_file_are_those_of_its_schema_also_after_an_answer_was_cut_off() -> None:
    (footer,) = read_footers(Answers(parquet()[:-4], parquet()).store, ["a"])
    assert (footer.rows, footer.problem) == (2, None)
    assert [(leaf.column, leaf.is_nested, leaf.physical_type) for leaf in footer.leaves] == [
        ("n", False, "INT64"),
        ("s", True, "INT64"),
        ("l", True, "BYTE_ARRAY"),
    ]


def test_a_file_without_its_end_has_a_problem_and_a_lost_connection_is_none() -> None:
    broken = parquet()[:-4]
    (footer,) = read_footers(Answers(broken, broken, broken).store, ["a"])
    assert (footer.rows, footer.leaves) == (0, ())
    assert footer.problem
    assert "magic bytes not found in footer" in footer.problem
    for answers in ([CutConnection(parquet())], [broken, CutConnection(parquet())]):
        with pytest.raises(ConnectionResetError, match="the connection was cut"):
            read_footers(Answers(*answers).store, ["a"])


NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAYS = [date(2026, 6, day) for day in range(1, 6)]


def audited(day: date, days_ago: int, missing: int = 0) -> AuditRecord:
    return AuditRecord(day, 1, NOON - timedelta(days=days_ago), PartitionComparison(1, 1, missing, missing))


def audit_order(*records: AuditRecord) -> list[int]:
    return [day.day for day in order_by_last_audit(set(DAYS), Audits(NOON.date(), {}, records))]


def test_unequal_ones_come_first_then_those_never_audited_then_the_longest_ago() -> None:
    assert audit_order() == [5, 4, 3, 2, 1]
    assert audit_order(audited(DAYS[4], 1), audited(DAYS[3], 2)) == [3, 2, 1, 4, 5]
    assert audit_order(audited(DAYS[0], 1, missing=1), audited(DAYS[4], 9)) == [1, 4, 3, 2, 5]


@pytest.mark.parametrize(("retention_days", "expected"), [(730, [1, 2, 3, 4]), (14, [4]), (13, []), (1, [])])
def test_partitions_that_end_soon_or_are_empty_are_left_out(retention_days: int, expected: list[int]) -> None:
    published = manifest(*(entry(day, rows) for day, rows in zip(DAYS, (1, 1, 1, 1, 0), strict=True)))
    published = replace(published, table=replace(PRODUCTS, retention_days=retention_days))
    assert sorted(day.day for day in auditable_dates(published, NOON)) == expected


@pytest.mark.parametrize(("retention_days", "expected"), [(17, [1, 2]), (16, [])])
def test_dates_whose_month_ends_soon_are_left_out(retention_days: int, expected: list[int]) -> None:
    published = manifest(*(entry(date(2026, 6, day), 1) for day in (1, 2)))
    table = replace(PRODUCTS, retention_days=retention_days, partition_by=PartitionBy.MONTH)
    assert sorted(day.day for day in auditable_dates(replace(published, table=table), NOON)) == expected
