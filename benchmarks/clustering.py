"""Measures what a filter on the first clustering column reads after a swap: `python -m benchmarks.clustering`.

The same rows are published on the stand-in by the real Spark job in three ways: files in random order that are adopted,
files sorted by the clustering columns that are adopted, and files in random order that plan `rewrite` sorts. The
program prints the bytes that a filter on one value reads at once, and after BigQuery has clustered the table again.

The stand-in sorts the rows of each loaded file by themselves, into blocks of about 1 MB. How BigQuery shares a load
among its workers, and how large its blocks are, is not documented: the shares are those of a model.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.request import Plan
from dedup_spark.column_types import arrow_schema
from testkit.feed_against_oracle import FeedAgainstOracle, feed_of
from testkit.feed_on_stand_in import TODAY
from testkit.server_clients import open_clients
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import PRODUCTS

DATES = 3
FILES_PER_DATE = 8
PRODUCTS_PER_DATE = 10_000
RECLUSTERED_AFTER = timedelta(minutes=31)
ROW_BYTES = 8 * 2  # of the two columns that the query refers to


@dataclass(frozen=True)
class Way:
    """How the rows are published."""

    name: str
    is_sorted: bool
    plan: Plan


WAYS = (
    Way("adopted, files in random order", is_sorted=False, plan=Plan.ADOPT),
    Way("adopted, files in order", is_sorted=True, plan=Plan.ADOPT),
    Way("rewritten", is_sorted=False, plan=Plan.REWRITE),
)


@dataclass(frozen=True)
class Measured:
    """`overlap`: the publish's own figure. `at_once`, `reclustered`: the share of the columns' bytes that is read."""

    way: Way
    overlap: float | None
    at_once: float
    reclustered: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_200_000, help="rows of the table, in 3 dates")
    rows = parser.parse_args().rows // DATES
    with (
        tempfile.TemporaryDirectory() as folder,
        open_clients(Path(folder)) as clients,
        SparkDedupProcess(clients[0]) as spark,
    ):
        feeds = [FeedAgainstOracle(clients, feed_of(PRODUCTS)) for _ in WAYS]
        overlaps = []
        for way, feed in zip(WAYS, feeds, strict=True):
            feed.dedup = spark
            overlaps.append(feed.publish(feed.land_files(1, snapshot(rows, way)), plan=way.plan).cluster_overlap)
        at_once = [share_read(feed, rows, "at once") for feed in feeds]
        feeds[0].pass_time(RECLUSTERED_AFTER)
        reclustered = [share_read(feed, rows, "re-clustered") for feed in feeds]
    print("| Files | Overlap | A filter on one value reads | After re-clustering |\n| --- | --: | --: | --: |")
    for measured in map(Measured, WAYS, overlaps, at_once, reclustered):
        overlap = "unknown" if measured.overlap is None else f"{measured.overlap:.0%}"
        print(f"| {measured.way.name} | {overlap} | {measured.at_once:.1%} | {measured.reclustered:.1%} |")


def snapshot(rows: int, way: Way) -> dict[str, bytes]:
    """The files of a delivery with so many rows for each date, by their names."""
    rng = np.random.default_rng(7)
    files = {}
    for day in (TODAY - timedelta(days=age) for age in range(DATES)):
        order = np.arange(rows) if way.is_sorted else rng.permutation(rows)
        for number, part in enumerate(np.array_split(order, FILES_PER_DATE)):
            files[f"date={day}/part-{number}.parquet"] = parquet(day, part, rows)
    return files


def parquet(day: date, keys: np.ndarray, rows: int) -> bytes:
    """A file with these keys, of which equally many have each product."""
    per_product = max(rows // PRODUCTS_PER_DATE, 1)
    values = {
        "date": np.full(len(keys), np.datetime64(day, "D")),
        "product_id": keys // per_product,
        "store_id": keys % per_product,
        "attribute_id": np.ones(len(keys), np.int64),
        "attr_value": keys % 1000,
        "update_id": np.ones(len(keys), np.int64),
    }
    content = io.BytesIO()
    pq.write_table(pa.table(values).cast(arrow_schema(PRODUCTS.columns)), content, store_schema=False)
    return content.getvalue()


def share_read(feed: FeedAgainstOracle, rows: int, moment: str) -> float:
    """The share of the bytes of the two columns that a sum for one product reads. Every product is as frequent.

    `moment`: any text; a query with the same text as an earlier one would be answered from the cache.
    """
    table = f"{feed.places.dataset}.{feed.feed.target}"
    processed = []
    for product in range(500, PRODUCTS_PER_DATE, 1000):
        job = feed.bigquery.query(f"SELECT SUM(attr_value) FROM {table} WHERE product_id = {product}  # {moment}")
        job.result()
        processed.append(int(job.total_bytes_processed))
    return sum(processed) / len(processed) / (DATES * rows * ROW_BYTES)


if __name__ == "__main__":
    main()
