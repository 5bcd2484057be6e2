"""Dates of 428 million rows, scaled down with all limits. None is left to a shuffle, and results are the oracle's."""

from __future__ import annotations

from random import Random

import pytest

from dedup_spark import storage
from dedup_spark.comparison import selected_rows
from dedup_spark.comparison.selected_rows import SelectedRows
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, row
from tests.spark.small_limits import scale_limits
from tests.thoroughness import NIGHT

SCALE = 2_000 if NIGHT else 40_000
ROWS = 428_000_000 // SCALE
# The share of the keys that a snapshot lacks and of those that it has in addition; values change as often.
CHURN = 0.0003


class Snapshots:
    """Makes each snapshot of the date from the one before."""

    def __init__(self) -> None:
        self.random, self.next_key = Random(7), ROWS
        self.values = dict.fromkeys(range(ROWS), 0)

    def rows(self, snapshot_id: int, churn: float = CHURN) -> list[Row]:
        count = int(ROWS * churn)
        for key in self.random.sample(sorted(self.values), count):
            del self.values[key]
        self.values.update(dict.fromkeys(range(self.next_key, self.next_key + count), snapshot_id))
        self.next_key += count
        self.values.update(dict.fromkeys(self.random.sample(sorted(self.values), count), snapshot_id))
        return [row(snapshot_id, key // 12, value) | {"attribute_id": key % 12} for key, value in self.values.items()]


@pytest.fixture
def job(area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> JobAgainstOracle:
    scale_limits(monkeypatch, SCALE)
    return JobAgainstOracle(area)


@pytest.mark.parametrize("times", [10, 330])
def test_any_share_of_differing_rows_is_adopted(job: JobAgainstOracle, times: int) -> None:
    snapshots = Snapshots()
    for number, churn in enumerate((0, CHURN * times, CHURN), start=1):
        job.play(snapshots.rows(number, churn))
        assert job.entry.plan == "adopt"


def test_rows_compared_follow_the_difference(job: JobAgainstOracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the parent only survivors are read. One seed makes sketches equal in every run."""
    storage.write_text(storage.join(job.feed.state, "fingerprint_seed"), "5e" * 32)
    snapshots, compared, add = Snapshots(), [], selected_rows.RangedRows.add

    def counting(self: selected_rows.RangedRows, selected: SelectedRows) -> None:
        compared.append(len(selected))
        add(self, selected)

    job.play(snapshots.rows(1, 0))
    job.play(snapshots.rows(2))
    monkeypatch.setattr(selected_rows.RangedRows, "add", counting)
    job.play(snapshots.rows(3))
    assert job.entry.plan == "adopt"
    assert "differing rows decoded" in job.entry.plan_reason
    assert sum(compared) < ROWS * CHURN * 2


def test_backlogs_and_corrections_of_the_live_snapshot_are_adopted(job: JobAgainstOracle) -> None:
    """After them the next snapshot needs the sketch of all rows with the id that was corrected."""
    snapshots = Snapshots()
    job.play(snapshots.rows(1, 0))
    job.play(snapshots.rows(2), snapshots.rows(3))
    for number in (3, 3, 4):
        job.play(snapshots.rows(number))
        assert job.entry.plan == "adopt"
    assert "sketch of the parent stored" in job.entry.plan_reason


def test_a_late_snapshot_adds_rows_and_leaves_the_files_of_the_newest(job: JobAgainstOracle) -> None:
    snapshots = Snapshots()
    # Of the keys that the late snapshot adds, the newest lacks a twentieth.
    first, late, newest, last = (snapshots.rows(number, 0.05) for number in (1, 3, 4, 5))
    for snapshot in (first, newest, late):
        job.play(snapshot)
    assert "written by Spark" not in job.entry.plan_reason
    assert job.entry.new_keys
    files = job.feed.files().files
    (of_newest,) = (file for file in files if file.min_update_id == 4)
    assert of_newest.path.startswith(f"date={FIRST}/adopted-")
    assert sum(file.rows for file in files if file is not of_newest) < ROWS * 0.05 * 3
    job.play(last)
    assert "sketch of the parent stored" in job.entry.plan_reason
