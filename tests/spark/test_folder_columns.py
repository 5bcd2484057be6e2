"""Files without the partition column, as in Hive's layout, or without the snapshot id: the folders' names have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.column_types import arrow_schema
from testkit.generated_tables import GeneratedHistory
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, rows

LACKS = ([], ["day"], ["version"], ["day", "version"])


def land(feed: SparkJobFeed, snapshot_id: int, found: Sequence[Row], lacking: Sequence[Sequence[str]]) -> Arrival:
    """Land the rows, one file for each date. The files in turn lack the columns of `lacking`."""
    day, files = feed.table.partition_column, {}
    by_day = groupby(sorted(found, key=lambda row: row[day]), key=lambda row: row[day])
    for number, (of_day, rows_of_day) in enumerate(by_day):
        content = pa.Table.from_pylist(list(rows_of_day), schema=arrow_schema(feed.table.columns))
        name = f"{day}={of_day}/part-{snapshot_id}.parquet"
        files[name] = content.drop_columns(list(lacking[number % len(lacking)]))
    return feed.deliver(snapshot_id, files)


def play(session: SparkSession | None, folder: Path, seed: int, mode: UpdateIdMode, plan: Plan, **other: bool) -> None:
    """Publish four snapshots. In mode last_seen adopt has two at once, and a late one comes last."""
    random = Random(seed)
    feed = SparkJobFeed(session, str(folder / "landing"), str(folder / "state"), NESTED, mode, plan, **other)
    job, snapshots = JobAgainstOracle(feed), GeneratedHistory(NESTED, random, FIRST, days=5, repeat=0.1)
    is_last_seen = mode is UpdateIdMode.LAST_SEEN
    at_once = [[4, 5]] if is_last_seen and plan is not Plan.REWRITE else [[4], [5]]
    for ids in ([1], [3], *at_once, *([[2]] if is_last_seen else [])):
        for snapshot_id in ids:
            found = snapshots.snapshot(snapshot_id)
            job.landed[snapshot_id] = land(feed, snapshot_id, found, random.sample(LACKS, 4)), found
        job.publish(*ids)


@pytest.mark.parametrize("mode", list(UpdateIdMode))
@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
@pytest.mark.parametrize("seed", [0, 1])
def test_folders_fill_the_columns_that_files_lack(tmp_path: Path, seed: int, plan: Plan, mode: UpdateIdMode) -> None:
    play(None, tmp_path, seed, mode, plan, with_changes=seed == 1)


def test_they_do_when_all_rows_are_compared(tmp_path: Path) -> None:
    play(None, tmp_path, 2, UpdateIdMode.LAST_SEEN, Plan.AUTO, exact=True)


@pytest.mark.spark
def test_spark_fills_them_too(spark: SparkSession, tmp_path: Path) -> None:
    play(spark, tmp_path, 3, UpdateIdMode.LAST_SEEN, Plan.WINDOW)


def test_the_date_may_be_the_only_key(tmp_path: Path) -> None:
    table: TableContract = replace(PRODUCTS, keys=("date",), cluster_by=())
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), table)
    job = JobAgainstOracle(feed)
    for snapshot_id in (1, 2, 3):
        found = rows(snapshot_id, snapshot_id)
        job.landed[snapshot_id] = land(feed, snapshot_id, found, [["date", "update_id"]]), found
        job.publish(snapshot_id)


def test_without_date_folders_files_need_the_date(area: SparkJobFeed) -> None:
    area.date_folders = False
    schema = arrow_schema([column for column in PRODUCTS.columns if column.name not in ("date", "update_id")])
    table = pa.Table.from_pylist(rows(1, 1, 2), schema=schema)
    (refused,) = area.publish(area.deliver(1, {"part.parquet": table})).refused
    assert "column [date] is missing, expected [DATE]" in refused.reason
    assert "update_id" not in refused.reason


def test_a_folder_does_not_replace_what_a_file_says(area: SparkJobFeed) -> None:
    other = pa.Table.from_pylist(rows(2, 1), schema=arrow_schema(PRODUCTS.columns))
    (refused,) = area.publish(area.deliver(1, {f"date={FIRST}/part.parquet": other})).refused
    assert "column [update_id]: 1 rows have another id, expected the folder's [1]" in refused.reason
