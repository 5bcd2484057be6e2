"""Records in the state bucket: whose write is stored, what a damaged one does, how long versions stay; and footers."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from typing import IO, Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.cloud.storage.bucket import Bucket

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import (
    ConfigurationError,
    ContractViolation,
    FeedHeldElsewhere,
    LeaseHeld,
    LostRace,
)
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits, PartitionComparison
from dedup_clone.state.current import CurrentFile, Retirement, TargetAction
from dedup_clone.state.landing import read_footers
from dedup_clone.state.ledger import ReportingBacklog
from dedup_clone.state.store import ObjectStore
from testkit.lost_answers import losing_answers
from tests.unit.state.conftest import FEED, Buckets

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = NOW.date()


# -- Conditional writes: one belongs to the process whose write is stored, also if the answer to it was lost --


def test_a_write_that_was_stored_but_answered_with_503_is_the_callers_own(buckets: Buckets) -> None:
    with losing_answers(buckets.client) as client:
        store = ObjectStore(client, buckets.state_bucket)
        assert store.create("record", "first")
        (created,) = store.stat(["record"])
        replaced = store.replace("record", "second", expected_object_generation=created.object_generation)
        found = store.read("record")
        assert found is not None
        assert (found.text, found.object_generation) == ("second", replaced)
        store.put("record", "third")
        (last,) = store.stat(["record"])
        assert store.delete("record", expected_object_generation=last.object_generation)
    assert store.read("record") is None


def test_of_two_writers_of_equal_text_only_the_first_believes_that_it_wrote(buckets: Buckets) -> None:
    first = buckets.state
    assert first.create("record", "same")
    (created,) = first.stat(["record"])
    with losing_answers(buckets.client) as client:
        second = ObjectStore(client, buckets.state_bucket)
        assert not second.create("record", "same")
        first.replace("record", "next", expected_object_generation=created.object_generation)
        with pytest.raises(LostRace, match="another run wrote it"):
            second.replace("record", "next", expected_object_generation=created.object_generation)


# -- CURRENT: a run gets the lease only for the generation on which it decided, and never of a retired feed --


def test_a_refused_run_changes_nothing(buckets: Buckets) -> None:
    current = CurrentFile(buckets.state, FEED)
    run: dict[str, Any] = {"dag_id": "dag", "run_id": "run", "now": NOW}
    first = current.acquire_lease("here", None, Kind.PUBLISH, **run)
    assert (first.parent, first.generation) == (None, 1)
    with pytest.raises(LeaseHeld):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)
    current.commit(first.attempt, "digest")
    before = current.read()
    with pytest.raises(LostRace, match=r"Generation \[1\] was committed meanwhile"):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)
    with pytest.raises(FeedHeldElsewhere):
        current.acquire_lease("there", 1, Kind.PUBLISH, **run)
    assert current.read() == before
    last = current.acquire_lease("here", 1, Kind.RETIRE, **run)
    current.retire(last.attempt, Retirement(NOW, "run", "a test", TargetAction.DROP, last.attempt, 1, 3))
    for _ in range(2):
        current.end_retirement()
    assert (current.read().generation, current.read().intent, current.read().last_generation) == (None, None, 2)
    with pytest.raises(ConfigurationError, match="was retired at 2026-06-15 12:00 UTC by run"):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)


# -- The rows that the ledger table lacks --


@pytest.mark.parametrize("text", ['{"reason": "\udcff"}', '{"reason', "[1]"], ids=["not_utf8", "cut_off", "no_object"])
def test_a_row_that_no_load_can_read_is_named(buckets: Buckets, text: str) -> None:
    backlog = ReportingBacklog(buckets.state)
    backlog.add_row("feed", "whole", {"reason": "Größe"})
    backlog.add_row("feed2", "other", {})
    assert backlog.read_row("feed", "whole") == {"reason": "Größe"}
    assert backlog.read_row("feed", "gone") is None
    assert [row.attempt for row in backlog.waiting("feed")] == ["whole"]
    assert [(row.feed, row.attempt) for row in backlog.waiting()] == [("feed", "whole"), ("feed2", "other")]
    buckets.state.put("_reporting/ledger/feed/damaged.json", text)
    with pytest.raises(ContractViolation, match=r"ledger/feed/damaged\.json.*restore a former version"):
        backlog.read_row("feed", "damaged")


# -- The record of content audits --


def audit(day: date, outcome: str = "equal", hours_ago: int = 0) -> AuditRecord:
    found = PartitionComparison(3, 2, 0, 1)
    return AuditRecord(day, 7, AuditOutcome(outcome), NOW - timedelta(hours=hours_ago), found, 10)


def test_an_audits_job_counts_once_on_its_day() -> None:
    audits = Audits(DAY, {"job": 5}, (audit(DAY),))
    assert from_json(Audits, to_json(audits), where="test") == audits
    audits = Audits(DAY, {}, ()).with_job(DAY, "a", 10).with_job(DAY, "a", 10).with_job(DAY, "b", 5)
    tomorrow = DAY + timedelta(days=1)
    assert (audits.billed_on(DAY), audits.billed_on(tomorrow)) == (15, 0)
    assert audits.with_job(tomorrow, "c", 1).jobs == {"c": 1}


def test_what_was_compared_last_counts_until_it_is_compared_again() -> None:
    passed_over, compared = audit(DAY, "over_budget"), audit(DAY - timedelta(days=1), hours_ago=5)
    assert Audits(DAY, {}, (compared, passed_over)).last == compared
    assert Audits(DAY, {}, (passed_over,)).last is None
    gone, unequal, equal = audit(date(2024, 1, 1)), audit(DAY, "unequal"), audit(DAY)
    found = Audits(DAY, {}, (gone, unequal)).with_records((passed_over,), retained={DAY})
    assert found.records == (unequal,)
    assert found.with_records((equal,), retained={DAY}).records == (equal,)


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
