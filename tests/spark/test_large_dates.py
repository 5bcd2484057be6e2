"""Dates of 428 million rows, scaled down with all limits: none is left to a shuffle, and results are the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.manifest import DataFile, DateEntry
from dedup_clone.contract.request import Plan
from dedup_spark.comparison import bucket_selection, key_source, ranged_rows, spilled_hashes
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.fingerprints import buckets
from dedup_spark.plans.adopt import adopt_date
from dedup_spark.plans.adopt.differences import DEFAULT_LIMITS, Limits
from dedup_spark.plans.rewrite import date_merge
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS, oracle_table
from tests.thoroughness import NIGHT

pytestmark = pytest.mark.spark

SCALE = 2_000 if NIGHT else 10_000
ROWS = 428_000_000 // SCALE
DAY, RETENTION_DAY = date(2026, 3, 1), date(2026, 1, 1)
# The share of the keys that a snapshot lacks and of those that it has in addition; values change as often.
CHURN = 0.0003


@pytest.fixture(autouse=True)
def scaled_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(rows=DEFAULT_LIMITS.rows // SCALE, hashes=DEFAULT_LIMITS.hashes // SCALE)
    monkeypatch.setattr(adopt_date, "DEFAULT_LIMITS", limits)
    monkeypatch.setattr(buckets, "MAX_BITS", buckets.MAX_BITS - SCALE.bit_length() + 1)
    monkeypatch.setattr(bucket_selection, "_EXAMPLE_BUCKETS", 0)
    for module, name in (
        (ranged_rows, "_ROWS_IN_MEMORY"),
        (spilled_hashes, "_ROWS_IN_MEMORY"),
        (key_source, "_ROWS_AT_A_TIME"),
        (date_merge, "ROWS_PER_RANGE"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) // SCALE)


class Snapshots:
    """Makes each snapshot of the date from the one before."""

    def __init__(self) -> None:
        self.random, self.next_key = Random(7), ROWS
        self.values = dict.fromkeys(range(ROWS), 0)

    def rows(self, snapshot_id: int, churn: float = CHURN) -> list[dict[str, Any]]:
        count = int(ROWS * churn)
        for key in self.random.sample(sorted(self.values), count):
            del self.values[key]
        self.values.update(dict.fromkeys(range(self.next_key, self.next_key + count), snapshot_id))
        self.next_key += count
        self.values.update(dict.fromkeys(self.random.sample(sorted(self.values), count), snapshot_id))
        return rows(snapshot_id, self.values)


def rows(snapshot_id: int, values: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {
            "date": DAY,
            "update_id": snapshot_id,
            "product_id": key // 12,
            "store_id": 7,
            "attribute_id": key % 12,
            "attr_value": value,
        }
        for key, value in values.items()
    ]


def play(
    folder: Path,
    publishes: Sequence[Sequence[tuple[int, list[dict[str, Any]]]]],
    seen: list[tuple[DateEntry, Sequence[DataFile]]] | None = None,
) -> SparkJobFeed:
    """Publish deliveries (snapshot ids with rows) one publish after the other, and compare each with the oracle.

    `seen`: takes the date's entry and the files after each publish.
    """
    area = SparkJobFeed(None, str(folder), str(folder / "state"), PRODUCTS, plan=Plan.AUTO)
    expected = OracleState(oracle_table(PRODUCTS))
    for deliveries in publishes:
        area.publish(*(area.land(snapshot_id, delivered) for snapshot_id, delivered in deliveries))
        expected = expected.apply([OracleDelivery(*delivery) for delivery in deliveries], RETENTION_DAY)
        entry, counts = area.entry(DAY), expected.counts[DAY]
        found = (entry.rows, entry.new_keys, entry.changed, entry.survivors, entry.ties)
        assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties)
        if seen is not None:
            seen.append((entry, area.files().files))
    assert comparable(oracle_table(PRODUCTS), area.rows()) == expected.table_rows()
    return area


@pytest.mark.parametrize("times", [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 10)), 330])
def test_any_share_of_differing_rows_is_adopted(tmp_path: Path, times: int) -> None:
    snapshots = Snapshots()
    churns = (0, CHURN * times, CHURN)
    area = play(tmp_path, [[(number, snapshots.rows(number, churn))] for number, churn in enumerate(churns, start=1)])
    assert area.entry(DAY).plan == "adopt"


def test_rows_compared_follow_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At thirty times the usual churn nearly every bucket differs, but not every part of a bucket."""
    snapshots, compared = Snapshots(), []
    add = ranged_rows.RangedRows.add

    def counting(self: ranged_rows.RangedRows, rows: SelectedRows) -> None:
        compared.append(len(rows))
        add(self, rows)

    monkeypatch.setattr(ranged_rows.RangedRows, "add", counting)
    churns = (0, CHURN * 30)
    area = play(tmp_path, [[(number, snapshots.rows(number, churn))] for number, churn in enumerate(churns, start=1)])
    assert area.entry(DAY).plan == "adopt"
    assert sum(compared) < ROWS * 2 * 0.3


@pytest.mark.parametrize("waiting", [2, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_backlogs_are_adopted(tmp_path: Path, waiting: int) -> None:
    snapshots = Snapshots()
    first = (1, snapshots.rows(1, 0))
    area = play(tmp_path, [[first], [(number, snapshots.rows(number)) for number in range(2, 2 + waiting)]])
    assert area.entry(DAY).plan == "adopt"


def test_correction_of_the_live_snapshot_is_adopted(tmp_path: Path) -> None:
    """Twice; then the next snapshot needs the fingerprints of all rows with the id that was corrected."""
    snapshots = Snapshots()
    area = play(tmp_path, [[(number, snapshots.rows(number))] for number in (1, 2, 2, 2, 3)])
    assert area.entry(DAY).plan == "adopt"
    assert "fingerprints of the parent stored" in area.entry(DAY).plan_reason


def test_late_snapshot_adds_rows_and_leaves_the_files_of_the_newest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="dedup_spark")
    snapshots = Snapshots()
    # Of the keys that the late snapshot adds, the newest lacks a twentieth.
    first, late, newest, last = ((number, snapshots.rows(number, 0.05)) for number in (1, 3, 4, 5))
    seen: list[tuple[DateEntry, Sequence[DataFile]]] = []
    area = play(tmp_path, [[first], [newest], [late], [last]], seen)
    entry, files = seen[2]
    assert "written by Spark" not in entry.plan_reason
    slower = [message for message in caplog.messages if "longer" in message]
    assert len(slower) == 1
    assert "[1] dates take longer than adopting them would, [0] of them as DataFrames; [1]: not adopted" in slower[0]
    assert entry.new_keys
    (of_newest,) = (file for file in files if file.min_update_id == 4)
    assert of_newest.path.startswith(f"date={DAY}/adopted-")
    assert sum(file.rows for file in files if file is not of_newest) < ROWS * 0.05 * 3
    assert "fingerprints of the parent stored" in area.entry(DAY).plan_reason
