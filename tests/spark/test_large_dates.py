"""Dates of 428 million rows, scaled down with all limits, and dates that are divided over Spark tasks.

None is left to a shuffle, and results are the oracle's, or those of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_spark import storage
from dedup_spark.comparison import ranged_rows
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.dispatch import is_split
from dedup_spark.execution import part_tasks
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.sketch.sketch import Difference, Remainder, Sketch
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, SCHEMA, row
from tests.spark.small_limits import lower_limits, scale_limits, split_every_date
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
    snapshots, compared, add = Snapshots(), [], ranged_rows.RangedRows.add

    def counting(self: ranged_rows.RangedRows, selected: SelectedRows) -> None:
        compared.append(len(selected))
        add(self, selected)

    job.play(snapshots.rows(1, 0))
    job.play(snapshots.rows(2))
    monkeypatch.setattr(ranged_rows.RangedRows, "add", counting)
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


PARTS, FILES = 3, 5


def rows(snapshot_id: int, products: Sequence[int], changed: Sequence[int] = ()) -> list[Row]:
    return [row(snapshot_id, product, 10 + (product in changed)) for product in products]


# First all keys; then missing, new, changed and repeated ones; then two deliveries at a time.
PUBLISHES = [
    [rows(1, range(400))],
    [rows(2, range(7, 420), changed=[50, 250]) + rows(2, [300, 301], changed=[300])],
    [rows(3, range(11, 430)), rows(4, [*range(3), *range(20, 425)])],
]


def land(area: SparkJobFeed, delivered: list[Row]) -> Arrival:
    table = pa.Table.from_pylist(delivered, schema=SCHEMA)
    parts = [table.take(pa.array(range(number, table.num_rows, FILES))) for number in range(FILES)]
    files = {f"date={FIRST}/{number}.parquet": part for number, part in enumerate(parts)}
    return area.deliver(delivered[0]["update_id"], files)


def publish_all(folder: Path) -> list[Any]:
    """What each publish found out and wrote, without the names of files. One seed makes sketches equal."""
    storage.write_text(str(folder / "state/fingerprint_seed"), "5e" * 32)
    area = SparkJobFeed(None, str(folder), str(folder / "state"), PRODUCTS)
    found: list[Any] = []
    for snapshots in PUBLISHES:
        candidate = area.publish(*(land(area, snapshot) for snapshot in snapshots))
        files = sorted((file.rows, file.min_update_id, file.max_update_id) for file in area.files().files)
        table = sorted(tuple(row.values()) for row in area.rows())
        found.append((replace(area.entry(FIRST), files_digest=""), files, table, candidate.deliveries))
        assert "parts" not in {name.split("/")[0] for name in storage.list_objects(area.data_uri())}
    return found


@pytest.fixture(scope="module")
def unsplit(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return publish_all(tmp_path_factory.mktemp("unsplit"))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Splits each date; the steps that ran, and of how many items."""
    ran: list[tuple[str, int]] = []
    run = PartTasks.map

    def recorded(self: PartTasks, function: Callable[[Any], Any], items: Sequence[Any], step: str, **how: Any) -> Any:
        ran.append((step, len(items)))
        return run(self, function, items, step, **how)

    split_every_date(monkeypatch, PARTS)
    monkeypatch.setattr(PartTasks, "map", recorded)
    return ran


@pytest.mark.parametrize("runs", [1, 2])
def test_a_split_date_is_what_one_task_makes_of_it(
    tmp_path: Path, unsplit: list[Any], steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    """Spark repeats a task that was killed, and may run it twice at a time. Only one of the results counts."""
    run = part_tasks.run_tasks

    def repeated(session: Any, function: Any, items: Any, *how: Any) -> Any:
        return [run(session, function, items, *how) for _ in range(runs)][-1]

    monkeypatch.setattr(part_tasks, "run_tasks", repeated)
    assert publish_all(tmp_path) == unsplit
    assert [entry.plan for entry, *_ in unsplit] == ["adopt"] * 3
    assert {count for step, count in steps if step in ("sum up rows", "find repeated keys")} == {PARTS}
    assert ("copy files", FILES) in steps


def test_differences_are_compared_by_ranges_of_key_codes(
    tmp_path: Path, unsplit: list[Any], steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower_limits(monkeypatch)
    no_rows = Difference(np.zeros((3, 0), np.uint64), np.zeros(0, np.int64))

    def full(self: Sketch) -> Remainder:
        return Remainder(Sketch(self.encoder, self.bits, 0, np.ones_like(self.cells)), no_rows)

    monkeypatch.setattr(Sketch, "peel", full)

    def without_reasons(found: list[Any]) -> list[Any]:
        return [(replace(entry, plan_reason="", cluster_overlap=None), table) for entry, _, table, _ in found]

    assert without_reasons(publish_all(tmp_path)) == without_reasons(unsplit)
    assert max(count for step, count in steps if step == "compare rows") > 2


def test_an_invalid_file_of_a_split_date_is_refused_with_its_name(
    area: SparkJobFeed, steps: list[tuple[str, int]]
) -> None:
    files = {f"date={FIRST}/1.parquet": pa.Table.from_pylist(rows(1, range(20)), schema=SCHEMA)}
    (refused,) = area.publish(area.deliver(1, {**files, f"date={FIRST}/9.parquet": b"PAR1 cut off"})).refused
    assert "9.parquet" in refused.reason
    assert not storage.list_objects(storage.join(area.state, "data"))


@pytest.mark.parametrize(
    ("gigabytes", "cores", "split"),
    [
        ([50], 1, []),
        ([50], 2, [50]),
        ([0.1], 2, []),
        ([4] * 13, 2, []),
        ([50, 4, 4], 2, [50]),
        ([20, 20], 2, []),
        ([4] * 730, 280, []),
        ([400, *[4] * 700], 280, [400]),
        ([60, *[4] * 100], 28, [60]),
    ],
)
def test_only_dates_that_leave_other_cores_idle_are_split(
    gigabytes: list[float], cores: int, split: list[float]
) -> None:
    sizes = [int(size * 2**30) for size in gigabytes]
    assert [size / 2**30 for size in sizes if is_split(size, sum(sizes), cores)] == split
