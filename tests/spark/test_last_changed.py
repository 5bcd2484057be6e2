"""Mode last_changed: a row's update_id is that of the snapshot in which its values changed or it first appeared."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, found, row

pytestmark = pytest.mark.spark


# In this mode Plan.AUTO takes Plan.REWRITE for every delivered date.
OTHERS = [pytest.param(plan, marks=pytest.mark.exhaustive) for plan in (Plan.ANTIJOIN, Plan.AUTO)]
STREAMED_ONLY = [Plan.REWRITE, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive), *OTHERS]


@pytest.fixture(params=[Plan.WINDOW, Plan.REWRITE, *OTHERS])
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    landing, state = str(tmp_path / "landing"), str(tmp_path / "state")
    return SparkJobFeed(spark, landing, state, PRODUCTS, UpdateIdMode.LAST_CHANGED, request.param)


def test_unchanged_row_retains_its_update_id_and_changed_row_has_the_new_one(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))
    area.publish(area.land(2, [row(2, 1, 10), row(2, 2, 20), row(2, 3, 30)]))
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 30, 2)]


def test_value_that_changes_and_changes_back_inside_a_backlog_counts_as_changed(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 10)]))
    area.publish(area.land(2, [row(2, 1, 20)]), area.land(3, [row(3, 1, 10)]), area.land(4, [row(4, 1, 10)]))
    assert found(area) == [(1, 10, 3)]


def changed_rows(area: SparkJobFeed, candidate: Candidate) -> list[tuple[int, int, int]]:
    """The rows that engine `cdc` would stream."""
    changes = area.changes(candidate)
    assert changes is not None
    rows = [change["new_row"] for change in changes]
    return sorted((r["product_id"], r["attr_value"], r["update_id"]) for r in rows)


@pytest.mark.parametrize("area", STREAMED_ONLY, indirect=True)
def test_engine_cdc_gets_the_rows_that_differ_from_the_parents(area: SparkJobFeed) -> None:
    area.engine, area.with_changes = Engine.CDC, True
    first = area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10), row(1, 9, 10, SECOND)]))
    assert first.changes_uri is None
    second = area.publish(area.land(2, [row(2, 1, 10), row(2, 2, 20), row(2, 3, 30), row(2, 9, 10, SECOND)]))
    assert area.manifest
    assert area.manifest.engine is Engine.CDC
    assert changed_rows(area, second) == [(2, 20, 2), (3, 30, 2)]
    backlog = area.publish(area.land(3, [row(3, 1, 11), row(3, 2, 20)]), area.land(4, [row(4, 9, 19, SECOND)]))
    assert changed_rows(area, backlog) == [(1, 11, 3), (9, 19, 4)]
    corrected = area.publish(area.land(4, [row(4, 9, 20, SECOND), row(4, 8, 1, SECOND)]))
    assert changed_rows(area, corrected) == [(8, 1, 4), (9, 20, 4)]
    unchanged = area.publish(area.land(5, [row(5, 9, 20, SECOND)]))
    assert changed_rows(area, unchanged) == []


def test_date_without_any_change_keeps_the_parents_files(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 10), row(1, 1, 10, SECOND)]))
    before = {day: area.entry(day) for day in (FIRST, SECOND)}
    area.publish(area.land(2, [row(2, 1, 10), row(2, 1, 11, SECOND)]))
    assert area.entry(FIRST).files_digest == before[FIRST].files_digest
    assert area.entry(FIRST).plan != "carried"
    assert "no row changed" in area.entry(FIRST).plan_reason
    assert area.entry(SECOND).files_digest != before[SECOND].files_digest
    assert sorted((r["date"], r["attr_value"]) for r in area.rows()) == [(FIRST, 10), (SECOND, 11)]


@pytest.mark.parametrize("area", STREAMED_ONLY, indirect=True)
def test_late_snapshot_is_refused_and_a_redelivery_of_the_newest_is_not(area: SparkJobFeed) -> None:
    area.publish(area.land(7, [row(7, 1, 10)]))
    late = area.publish(area.land(6, [row(6, 1, 60)]))
    (refused,) = late.refused
    assert "snapshot id [6] is below [7], the highest that the table has" in refused.reason
    area.publish(area.land(7, [row(7, 1, 11)]))
    assert found(area) == [(1, 11, 7)]


@pytest.mark.parametrize("area", STREAMED_ONLY, indirect=True)
def test_snapshot_that_changed_nothing_still_makes_older_ones_late(area: SparkJobFeed) -> None:
    area.publish(area.land(5, [row(5, 1, 10)]))
    area.publish(area.land(8, [row(8, 1, 10)]))
    assert found(area) == [(1, 10, 5)]
    late = area.publish(area.land(7, [row(7, 1, 70)]))
    assert [r.delivery.snapshot_id for r in late.refused] == [7]


@pytest.mark.parametrize("area", STREAMED_ONLY, indirect=True)
def test_day_of_a_survivor_is_compared_with_its_last_version(area: SparkJobFeed) -> None:
    """Product 1 pauses in snapshot 2 and comes back as it was: nothing about it has changed."""
    area.publish(area.land(1, [row(1, 1, 10), row(1, 2, 10)]))
    area.publish(area.land(2, [row(2, 2, 10)]))
    area.publish(area.land(3, [row(3, 1, 10), row(3, 2, 10)]))
    assert found(area) == [(1, 10, 1), (2, 10, 1)]
    assert area.entry(date(2026, 3, 1)).survivors == 0


@pytest.fixture
def streamed(tmp_path: Path) -> SparkJobFeed:
    """An area without Spark, so that whatever needs Spark fails."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, UpdateIdMode.LAST_CHANGED)


def many(snapshot_id: int, *changed: int, count: int = 3000, day: date = FIRST) -> list[dict[str, Any]]:
    return [row(snapshot_id, n, snapshot_id if n in changed else 0, day) for n in range(count)]


def test_snapshot_without_change_reads_no_row_of_the_parent_and_writes_nothing(streamed: SparkJobFeed) -> None:
    area = streamed
    area.publish(area.land(1, many(1) + many(1, day=SECOND)))
    before = {day: area.entry(day) for day in (FIRST, SECOND)}
    for file in area.files().files:
        Path(storage.join(area.data_uri(), file.path)).write_bytes(b"nobody reads this")
    for snapshot_id in (2, 3):
        candidate = area.publish(area.land(snapshot_id, many(snapshot_id) + many(snapshot_id, day=SECOND)))
        assert candidate.metrics.bytes_written == 0
        for day in (FIRST, SECOND):
            entry = area.entry(day)
            assert (entry.files_digest, entry.rows, entry.max_update_id) == (before[day].files_digest, 3000, 1)
            assert (entry.new_keys, entry.changed, entry.survivors) == (0, 0, 0)
            assert "same keys and values as in the last snapshot" in entry.plan_reason


def test_landed_files_of_an_unchanged_date_are_opened_once(
    streamed: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = streamed
    area.publish(area.land(1, many(1)))
    arrival, opened, open_input = area.land(2, many(2)), Counter[str](), storage.open_input

    def counted(uri: str) -> Any:
        opened[uri] += 1
        return open_input(uri)

    monkeypatch.setattr(storage, "open_input", counted)
    candidate = area.publish(arrival)
    assert "same keys and values as in the last snapshot" in area.entry(FIRST).plan_reason
    assert [opened[area.uri(landed.name)] for landed in arrival.objects] == [1]
    assert candidate.metrics.bytes_read == arrival.objects[0].size


def test_what_was_written_for_a_delivery_that_is_refused_is_deleted(streamed: SparkJobFeed) -> None:
    area = streamed
    area.publish(area.land(1, many(1) + many(1, day=SECOND)))
    wrong = [{**row(2, 1, 1, SECOND), "update_id": 1}]
    for day, rows in ((FIRST, many(2, 5)), (SECOND, wrong)):
        part = pa.Table.from_pylist(rows, schema=arrow_schema(PRODUCTS.columns))
        area.put(2, f"date={day}/part.parquet", part)
    request = area.request([area.arrive(2)])
    candidate = area.run(request)
    assert candidate.manifest is None
    assert "update_id" in candidate.refused[0].reason
    names = storage.list_objects(request.data_uri)
    assert [name for name in names if not name.startswith("outcomes/")] == []


def test_only_differing_buckets_are_compared_and_only_changed_dates_written(streamed: SparkJobFeed) -> None:
    area = streamed
    area.publish(area.land(1, many(1) + many(1, day=SECOND)))
    before = area.entry(SECOND).files_digest
    area.publish(area.land(2, many(2, 7, count=2999) + many(2, day=SECOND)))
    entry = area.entry(FIRST)
    assert (entry.new_keys, entry.changed, entry.survivors, entry.rows) == (0, 1, 1, 3000)
    # The feed's seed is random, so keys 7 and 3000 may be in one bucket.
    assert re.search("keys and values compared in [12] of 32 buckets", entry.plan_reason)
    assert area.entry(SECOND).files_digest == before
    assert [(r["product_id"], r["attr_value"]) for r in area.rows() if r["update_id"] == 2] == [(7, 2)]


def test_key_that_pauses_writes_nothing_and_the_next_snapshot_is_compared_with_the_last(streamed: SparkJobFeed) -> None:
    """The last snapshot's keys are recorded even where it changed no row."""
    area = streamed
    area.publish(area.land(1, many(1)))
    before = area.entry(FIRST).files_digest
    area.publish(area.land(2, many(2, count=2990)))
    assert (area.entry(FIRST).files_digest, area.entry(FIRST).survivors) == (before, 10)
    area.publish(area.land(3, many(3, count=2990)))
    assert "same keys and values as in the last snapshot" in area.entry(FIRST).plan_reason
    area.publish(area.land(4, many(4)))
    assert (area.entry(FIRST).files_digest, area.entry(FIRST).survivors) == (before, 0)


@pytest.mark.parametrize("lost", ["deleted", "damaged"])
def test_without_fingerprints_all_is_compared_and_they_are_there_again(streamed: SparkJobFeed, lost: str) -> None:
    area = streamed
    area.publish(area.land(1, many(1)))
    fingerprints = Path(storage.join(area.data_uri(), stored.path_of(FIRST)))
    if lost == "deleted":
        fingerprints.unlink()
    else:
        content = fingerprints.read_bytes()
        fingerprints.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    area.publish(area.land(2, many(2, 5)))
    assert area.entry(FIRST).plan_reason.endswith("all keys compared")
    assert area.entry(FIRST).changed == 1
    area.publish(area.land(3, [{**r, "update_id": 3} for r in many(2, 5)]))
    assert "same keys and values as in the last snapshot" in area.entry(FIRST).plan_reason


def test_fingerprints_do_not_depend_on_files(streamed: SparkJobFeed) -> None:
    area = streamed
    area.publish(area.land(1, many(1)))
    table = pa.Table.from_pylist(many(2)[::-1], schema=arrow_schema(PRODUCTS.columns))
    for number in range(3):
        area.put(2, f"date={FIRST}/{number}.parquet", table.slice(number * 1000, 1000))
    area.publish(area.arrive(2))
    assert "same keys and values as in the last snapshot" in area.entry(FIRST).plan_reason


def test_exact_does_not_use_value_hashes(spark: SparkSession, streamed: SparkJobFeed) -> None:
    streamed.session, streamed.exact = spark, True
    streamed.publish(streamed.land(1, [row(1, 1, 10)]))
    streamed.publish(streamed.land(2, [row(2, 1, 10)]))
    assert "values are compared themselves, as asked for" in streamed.entry(FIRST).plan_reason
    assert found(streamed) == [(1, 10, 1)]


def test_a_feed_may_change_its_mode_and_back(streamed: SparkJobFeed) -> None:
    """Fingerprints of one mode are of other rows than those of the other mode, and are not used there."""
    area = streamed
    area.publish(area.land(1, many(1)))
    area.publish(area.land(2, many(2, 5)))
    area.mode = UpdateIdMode.LAST_SEEN
    area.publish(area.land(3, many(3, 6, count=2999)))
    assert area.entry(FIRST).plan == "adopt"
    assert sorted(r["update_id"] for r in area.rows())[:2] == [1, 3]
    area.mode = UpdateIdMode.LAST_CHANGED
    area.publish(area.land(4, many(4, 6)))
    assert area.entry(FIRST).rows == len(area.rows()) == 3000
    assert {r["product_id"]: r["update_id"] for r in area.rows() if r["update_id"] != 3} == {6: 4, 2999: 1}


def test_replay_of_what_is_live_reads_nothing(streamed: SparkJobFeed) -> None:
    area = streamed
    arrival = area.land(1, many(1))
    area.publish(arrival)
    Path(area.uri(arrival.objects[0].name)).unlink()
    candidate = area.replay(arrival)
    assert (candidate.metrics.bytes_read, candidate.metrics.bytes_written) == (0, 0)
    assert len(area.rows()) == 3000


def test_replay_of_an_older_snapshot_is_late(streamed: SparkJobFeed) -> None:
    area = streamed
    arrival = area.land(1, [row(1, 1, 10)])
    area.publish(arrival)
    area.publish(area.land(2, [row(2, 1, 20)]))
    request = replace(area.request([arrival]), deliveries=(area.requested_delivery(arrival),))
    (refused,) = area.run(request).refused
    assert "below [2], the highest that the table has" in refused.reason


def test_unchanged_date_in_many_small_files_is_rewritten_into_few(streamed: SparkJobFeed) -> None:
    area = streamed
    area.mode = UpdateIdMode.LAST_SEEN
    for number in range(20):
        part = pa.Table.from_pylist(many(1)[number::20], schema=arrow_schema(PRODUCTS.columns))
        area.put(1, f"date={FIRST}/{number}.parquet", part)
    area.publish(area.arrive(1))
    assert len(area.files().files) == 20
    area.mode = UpdateIdMode.LAST_CHANGED
    area.publish(area.land(2, many(2)))
    assert area.entry(FIRST).plan_reason.endswith("[20] files become few")
    (file,) = area.files().files
    assert (file.rows, file.max_update_id) == (3000, 1)
