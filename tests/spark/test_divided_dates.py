"""A large date is read by several tasks, a part of its files each, and then compared as if one task had read them."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import DateEntry
from dedup_spark import dispatch, storage
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.dispatch import RunDate
from dedup_spark.plans.date_task import DateTask
from testkit import driver_session
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, found, row, rows
from tests.spark.small_limits import divide_every_date


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were summed up in one sketch, for each sketch that was made."""
    made: list[str] = []
    sketch = KeySource.sketch

    def noting(self: KeySource, *arguments: Any, **named: Any) -> Any:
        made.append(" ".join(sorted(Path(uri).stem for uri in self.uris)))
        return sketch(self, *arguments, **named)

    monkeypatch.setattr(KeySource, "sketch", noting)
    return made


def deliver(area: SparkJobFeed, snapshot_id: int, *files: list[dict[str, Any]]) -> Arrival:
    """Files "0", "1" and so on, each with rows of one date."""
    tables = [pa.Table.from_pylist(some, schema=SCHEMA) for some in files]
    return area.deliver(
        snapshot_id,
        {f"date={some[0]['date']}/{n}.parquet": t for n, (some, t) in enumerate(zip(files, tables, strict=True))},
    )


def three_files(area: SparkJobFeed, snapshot_id: int, first: int, last: int) -> Arrival:
    """Rows of these products, a third in each file."""
    return deliver(area, snapshot_id, *(rows(snapshot_id, *range(first + n, last, 3)) for n in range(3)))


def without_names(entry: DateEntry) -> DateEntry:
    return replace(entry, adopted_delivery=None, files_digest="")


@pytest.mark.parametrize("plan", [Plan.ADOPT, Plan.REWRITE])
def test_each_landed_row_is_summed_up_by_one_task(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, sketched: list[str], plan: Plan
) -> None:
    """Counts, examples, clustering and sketch of the date are those of an undivided one, and no other object stays."""
    area.plan, entries = plan, []
    for snapshot_id in (1, 2):
        area.publish(three_files(area, snapshot_id, snapshot_id, 90))
        entries.append(without_names(area.entry(FIRST)))
    divide_every_date(monkeypatch)
    sketched.clear()
    area.manifest = area.parent = None
    for snapshot_id, entry in zip((1, 2), entries, strict=True):
        area.publish(three_files(area, snapshot_id, snapshot_id, 90))
        assert without_names(area.entry(FIRST)) == entry
        assert sorted(sketched) == ["0", "1", "2"]
        assert set(storage.list_objects(storage.join(area.data_uri(), "sketches"))) == {f"{FIRST}.bin"}
        sketched.clear()
    assert found(area) == [(1, 10, 1), *((product, 20, 2) for product in range(2, 90))]


def test_the_task_of_a_part_is_sent_its_own_files_only(area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The date's own task, and the one that chooses how its rows are summed up, are sent all files."""
    divide_every_date(monkeypatch)
    sent: list[tuple[set[bytes], bool]] = []
    copied = driver_session.copied

    def noting(value: Any) -> Any:
        if isinstance(value, list):  # the items of a task, not a result
            pickled = pickle.dumps(value)
            sent.append((set(re.findall(rb"/(\d)\.parquet", pickled)), b"/adopted-" in pickled))
        return copied(value)

    monkeypatch.setattr(driver_session, "copied", noting)
    for snapshot_id in (1, 2):
        sent.clear()
        area.publish(three_files(area, snapshot_id, snapshot_id, 90))
        parts = [names for names, has_files_of_parent in sent if len(names) == 1 and not has_files_of_parent]
        assert sorted(map(min, parts)) == [b"0", b"1", b"2"]
        assert [names for names, _ in sent if len(names) > 1] == [{b"0", b"1", b"2"}] * 2


def test_sketches_of_parts_are_deleted_by_the_threads_of_a_task(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be as many as cores. The driver would delete one after the other."""
    divide_every_date(monkeypatch)
    deleted, delete = [], storage.delete

    def noting(uri: str) -> None:
        deleted.append((uri, threading.current_thread() is threading.main_thread()))
        delete(uri)

    monkeypatch.setattr(storage, "delete", noting)
    area.publish(three_files(area, 1, 1, 90))
    assert ["-part-" in uri for uri, _ in deleted] == [True] * 3
    assert not any(is_driver for _, is_driver in deleted)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"DCSK")], ids=["gone", "damaged"])
def test_files_are_read_again_if_a_parts_sketch_cannot_be_used(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, sketched: list[str], harm: Callable[[Path], Any]
) -> None:
    divide_every_date(monkeypatch)
    run = RunDate.__call__

    def without_a_part(self: RunDate, task: DateTask) -> Any:
        harm(Path(task.parts[0].uri))
        return run(self, task)

    monkeypatch.setattr(RunDate, "__call__", without_a_part)
    area.publish(three_files(area, 1, 1, 90))
    assert sorted(sketched) == ["0", "0 1 2", "1", "2"]
    assert found(area) == [(product, 10, 1) for product in range(1, 90)]


def test_files_are_read_again_if_their_numbers_are_outside_the_parents_ranges(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    area.publish(three_files(area, 1, 1, 90))
    divide_every_date(monkeypatch)
    area.publish(deliver(area, 2, rows(2, *range(1, 90)), [row(2, 1 << 60, -(1 << 60))]))
    assert found(area) == [*((product, 20, 2) for product in range(1, 90)), (1 << 60, -(1 << 60), 2)]


def test_a_delivery_with_a_bad_file_is_refused_and_the_parts_of_another_are_used(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, sketched: list[str]
) -> None:
    area.publish(three_files(area, 1, 1, 90))
    divide_every_date(monkeypatch)
    sketched.clear()
    good = three_files(area, 2, 1, 90)
    bad = deliver(area, 3, rows(3, 1), [{**row(3, 2, 2), "product_id": None}])
    candidate = area.publish(good, bad)
    ((delivery, reason),) = [(refused.delivery, refused.reason) for refused in candidate.refused]
    assert delivery == bad.delivery
    assert "date=2026-03-01/1.parquet" in reason
    assert "product_id" in reason
    assert found(area) == [(product, 20, 2) for product in range(1, 90)]
    assert "0 1 2" not in sketched
    assert set(storage.list_objects(storage.join(area.data_uri(), "sketches"))) == {f"{FIRST}.bin"}


@pytest.mark.parametrize(
    ("cores", "least_bytes", "expected"),
    [
        (2, 1, ["0", "1 2", "3"]),
        (100, 1, ["0", "1", "2", "3"]),
        (2, 1 << 20, ["0 1 2", "3"]),
        (1, 1, ["0 1 2", "3"]),
    ],
)
def test_a_date_is_divided_if_it_is_large_and_cores_would_wait_for_it(
    area: SparkJobFeed,
    monkeypatch: pytest.MonkeyPatch,
    sketched: list[str],
    cores: int,
    least_bytes: int,
    expected: list[str],
) -> None:
    monkeypatch.setattr(dispatch, "_PART_BYTES", least_bytes)
    monkeypatch.setattr(driver_session, "CORES", cores)
    many = rows(1, *range(100, 900))
    area.publish(deliver(area, 1, many, rows(1, 1), rows(1, 2), rows(1, 1, day=SECOND)))
    assert sorted(sketched) == expected


@pytest.mark.spark
def test_the_parts_of_a_date_are_read_by_tasks_of_spark(
    with_spark: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_PART_BYTES", 1)
    for snapshot_id in (1, 2):
        with_spark.publish(three_files(with_spark, snapshot_id, snapshot_id, 9))
    assert found(with_spark) == [(1, 10, 1), *((product, 20, 2) for product in range(2, 9))]
    assert with_spark.entry(FIRST).plan == "adopt"
