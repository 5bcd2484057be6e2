"""A date that is far larger than the others is divided over Spark tasks; the result is that of one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.split_dates import split_every_date

from dedup_clone.contract.delivery import Arrival
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.execution import part_tasks
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.plans.date_tasks import is_split
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import row
from tests.spark.small_limits import lower_limits

pytestmark = pytest.mark.spark

DAY = date(2026, 3, 1)
PARTS, FILES = 3, 5


def rows(snapshot_id: int, products: Sequence[int], changed: Sequence[int] = ()) -> list[dict[str, Any]]:
    return [row(snapshot_id, product, 10 + (product in changed), day=DAY) for product in products]


# First all keys; then missing, new, changed and repeated ones; then two deliveries at a time.
PUBLISHES = [
    [(1, rows(1, range(400)))],
    [(2, rows(2, range(7, 420), changed=[50, 250]) + rows(2, [300, 301], changed=[300]))],
    [(3, rows(3, range(11, 430))), (4, rows(4, [*range(3), *range(20, 425)]))],
]


def land(area: SparkJobFeed, snapshot_id: int, delivered: list[dict[str, Any]]) -> Arrival:
    table = pa.Table.from_pylist(delivered, schema=arrow_schema(PRODUCTS.columns))
    for number in range(FILES):
        area.put(
            snapshot_id, f"date={DAY}/{number}.parquet", table.take(pa.array(range(number, table.num_rows, FILES)))
        )
    return area.arrive(snapshot_id)


def feed(folder: Path, session: SparkSession | None = None) -> SparkJobFeed:
    """All feeds have one seed, so that their fingerprints are equal."""
    storage.write_text(str(folder / "state/fingerprint_seed"), "5e" * 32)
    return SparkJobFeed(session, str(folder), str(folder / "state"), PRODUCTS)


def play(area: SparkJobFeed) -> list[Any]:
    """What each publish found out and wrote, without the names of files."""
    found: list[Any] = []
    for deliveries in PUBLISHES:
        candidate = area.publish(*(land(area, *delivery) for delivery in deliveries))
        files = [(file.rows, file.min_update_id, file.max_update_id) for file in area.files().files]
        table = sorted(tuple(row.values()) for row in area.rows())
        found.append((replace(area.entry(DAY), files_digest=""), sorted(files), table, candidate.deliveries))
        assert "parts" not in {name.split("/")[0] for name in storage.list_objects(area.data_uri())}
    return found


@pytest.fixture(scope="module")
def unsplit(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return play(feed(tmp_path_factory.mktemp("unsplit")))


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


def test_a_split_date_is_what_one_task_makes_of_it(
    tmp_path: Path, spark: SparkSession, unsplit: list[Any], steps: list[tuple[str, int]]
) -> None:
    assert play(feed(tmp_path, spark)) == unsplit
    assert [entry.plan for entry, *_ in unsplit] == ["adopt"] * 3
    assert {count for step, count in steps if step in ("sum up keys by bucket", "hash keys")} == {PARTS}
    assert ("copy files", FILES) in steps


def test_a_part_that_is_repeated_does_no_harm(
    tmp_path: Path, unsplit: list[Any], steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark repeats a task that was killed, and may run it twice at a time. Only one of the results counts."""
    run = part_tasks.run_tasks

    def twice(session: Any, function: Any, items: Any, *how: Any) -> Any:
        run(session, function, items, *how)
        return run(session, function, items, *how)

    monkeypatch.setattr(part_tasks, "run_tasks", twice)
    assert play(feed(tmp_path)) == unsplit


def test_differences_are_compared_by_ranges_of_buckets(
    tmp_path: Path, unsplit: list[Any], steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower_limits(monkeypatch)
    found = play(feed(tmp_path))
    without_reasons = [(replace(entry, plan_reason="", cluster_overlap=None), table) for entry, _, table, _ in found]
    assert without_reasons == [
        (replace(entry, plan_reason="", cluster_overlap=None), table) for entry, _, table, _ in unsplit
    ]
    assert max(count for step, count in steps if step == "compare keys") > 2


def test_invalid_file_of_a_split_date_is_refused_with_its_name(tmp_path: Path, steps: list[tuple[str, int]]) -> None:
    area = feed(tmp_path)
    land(area, 1, rows(1, range(20)))
    area.put(1, f"date={DAY}/9.parquet", b"PAR1 cut off")
    (refused,) = area.publish(area.arrive(1)).refused
    assert "9.parquet" in refused.reason
    assert not [name for name in storage.list_objects(str(tmp_path / "state/data")) if "outcomes" not in name]


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
    ],
)
def test_only_dates_that_leave_other_cores_idle_are_split(
    gigabytes: list[float], cores: int, split: list[float]
) -> None:
    sizes = [int(size * 2**30) for size in gigabytes]
    assert [size / 2**30 for size in sizes if is_split(size, sum(sizes), cores)] == split
