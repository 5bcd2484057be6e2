"""The share of overlapping row groups that the job reports for each date, by plan and by the order of the files."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import Plan
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

DAY, OTHER = date(2026, 3, 1), date(2026, 3, 2)


@pytest.fixture
def feed(tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


def land(feed: SparkJobFeed, snapshot_id: int, order: str, *, day: date = DAY) -> Arrival:
    """Two files of 40 rows in row groups of 10, in the order of product_id or in none."""
    keys = list(range(80))
    if order == "shuffled":
        random.Random(1).shuffle(keys)
    for number, part in enumerate((keys[:40], keys[40:])):
        rows: list[dict[str, Any]] = [
            {"date": day, "product_id": k, "store_id": 1, "attribute_id": 1, "attr_value": 5, "update_id": snapshot_id}
            for k in part
        ]
        content = io.BytesIO()
        table = pa.Table.from_pylist(rows, schema=arrow_schema(feed.table.columns))
        pq.write_table(table, content, row_group_size=10, store_schema=False)
        feed.put(snapshot_id, f"date={day}/part-{number}.parquet", content.getvalue())
    return feed.arrive(snapshot_id)


def test_adopted_files_have_the_overlap_of_the_producers_order(feed: SparkJobFeed) -> None:
    feed.publish(land(feed, 5, "sorted"))
    assert feed.entry(DAY).cluster_overlap == 0.0
    feed.publish(land(feed, 6, "shuffled"))
    assert feed.entry(DAY).cluster_overlap == 1.0
    assert feed.entry(DAY).plan == "adopt"


def test_a_rewritten_date_is_sorted(feed: SparkJobFeed) -> None:
    feed.plan = Plan.REWRITE
    feed.publish(land(feed, 5, "shuffled"))
    assert (feed.entry(DAY).plan, feed.entry(DAY).cluster_overlap) == ("rewrite", 0.0)


def test_a_date_that_is_copied_forward_keeps_its_overlap(feed: SparkJobFeed) -> None:
    first = land(feed, 5, "shuffled")
    feed.publish(first)
    feed.publish(first, land(feed, 6, "sorted", day=OTHER))
    assert [entry.cluster_overlap for entry in feed.manifest.dates] == [1.0, 0.0]  # type: ignore[union-attr]
    assert feed.manifest
    assert feed.manifest.cluster_overlap == 0.5


def test_a_table_without_clustering_has_no_overlap(feed: SparkJobFeed) -> None:
    feed.table = replace(PRODUCTS, cluster_by=())
    feed.publish(land(feed, 5, "shuffled"))
    assert feed.entry(DAY).cluster_overlap is None
    assert feed.manifest
    assert feed.manifest.cluster_overlap is None
