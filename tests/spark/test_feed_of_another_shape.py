"""The shipped feed with text and date keys, nested values and no date folders, through every plan of the job."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import Plan
from devstack.producer import declared_snapshots, feeds
from testkit.spark_job_feed import SparkJobFeed
from tests.shared.typed_deliveries import parquet

pytestmark = pytest.mark.spark

TABLE = feeds.table_of(feeds.read("store_visits"))
DAY = date(2026, 3, 1)


@pytest.fixture(params=[Plan.AUTO, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    folders = str(tmp_path / "landing"), str(tmp_path / "state")
    return SparkJobFeed(spark, *folders, TABLE, plan=request.param, date_folders=False)


def deliver(area: SparkJobFeed, snapshot_id: int, rows: pa.Table) -> Arrival:
    half = rows.num_rows // 2
    area.put(snapshot_id, "a.parquet", parquet(rows.slice(0, half)))
    area.put(snapshot_id, "b.parquet", parquet(rows.slice(half)))
    return area.arrive(snapshot_id)


def keyed(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {tuple(row[key] for key in TABLE.keys): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_snapshots_that_the_producer_makes_end_in_the_plain_fold_of_them(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declared_snapshots, "DATES", 3)
    first = declared_snapshots.first(TABLE, DAY, 1, 7, 60)
    second, said = declared_snapshots.following(TABLE, first, DAY, 2, 7, 60)
    third, _ = declared_snapshots.following(TABLE, second, DAY + timedelta(days=1), 3, 7, 60)
    expected: dict[tuple[Any, ...], dict[str, Any]] = {}
    for snapshot_id, rows in ((1, first), (2, second), (3, third)):
        candidate = area.publish(deliver(area, snapshot_id, rows))
        assert candidate.refused == ()
        expected |= keyed(rows.to_pylist())
        assert keyed(area.rows()) == expected
        if snapshot_id == 2:
            assert candidate.manifest
            dates = candidate.manifest.dates
            assert (sum(e.new_keys for e in dates), sum(e.survivors for e in dates)) == (said.new, said.missing)
