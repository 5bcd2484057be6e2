"""Measures what a filter on the first clustering column reads after a swap: `python -m benchmarks.clustering`.

The real Spark job publishes the same rows on the stand-in in three ways: adopted files in random order, adopted files
that are sorted by the clustering columns, and files in random order that plan `rewrite` sorts. A query sums
attr_value for one product_id. The program prints the share of these two columns' bytes that the query reads
immediately after the swap, and after re-clustering.

The stand-in sorts the rows of each loaded file separately, into blocks of about 1 MB. BigQuery's size of blocks and its
distribution of a load among workers are not documented, so the printed shares are estimates.
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
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY
from testkit.server_clients import open_clients
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import PRODUCTS

DATES = 3
FILES_PER_DATE = 8
PRODUCTS_PER_DATE = 10_000
TIME_UNTIL_RECLUSTERED = timedelta(minutes=31)  # the stand-in re-clusters after 30 minutes
ROW_BYTES = 8 * 2  # of the two columns that the query refers to


@dataclass(frozen=True)
class PublishVariant:
    """How the rows are published. `is_sorted`: whether each file is sorted by the clustering columns."""

    name: str
    is_sorted: bool
    plan: Plan


VARIANTS = (
    PublishVariant("adopted, files in random order", is_sorted=False, plan=Plan.ADOPT),
    PublishVariant("adopted, files in order", is_sorted=True, plan=Plan.ADOPT),
    PublishVariant("rewritten", is_sorted=False, plan=Plan.REWRITE),
)


@dataclass(frozen=True)
class VariantFigures:
    """The figures of one PublishVariant.

    `overlap`: the share of row groups whose range of values of the first clustering column overlaps that of another,
    from the ledger record; None if it was not measured.

    `at_once`, `reclustered`: the share of the bytes of the query's two columns that the query reads, before and after
    re-clustering.
    """

    variant: PublishVariant
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
        feeds = [FeedAgainstOracle(clients, feed_with_table(PRODUCTS)) for _ in VARIANTS]
        overlaps = []
        for variant, feed in zip(VARIANTS, feeds, strict=True):
            feed.dedup = spark
            overlaps.append(
                feed.publish(feed.land_files(1, snapshot(rows, variant)), plan=variant.plan).cluster_overlap
            )
        at_once = [share_read(feed, rows, "at once") for feed in feeds]
        feeds[0].pass_time(TIME_UNTIL_RECLUSTERED)  # all feeds share the stand-in and its clock
        reclustered = [share_read(feed, rows, "re-clustered") for feed in feeds]
    print("| Files | Overlap | A filter on one value reads | After re-clustering |\n| --- | --: | --: | --: |")
    for measured in map(VariantFigures, VARIANTS, overlaps, at_once, reclustered):
        overlap = "unknown" if measured.overlap is None else f"{measured.overlap:.0%}"
        print(f"| {measured.variant.name} | {overlap} | {measured.at_once:.1%} | {measured.reclustered:.1%} |")


def snapshot(rows: int, variant: PublishVariant) -> dict[str, bytes]:
    """The files of a delivery by their names. `rows`: the number of rows on each date."""
    rng = np.random.default_rng(7)
    files = {}
    for day in (TODAY - timedelta(days=age) for age in range(DATES)):
        order = np.arange(rows) if variant.is_sorted else rng.permutation(rows)
        for number, keys in enumerate(np.array_split(order, FILES_PER_DATE)):
            files[f"date={day}/part-{number}.parquet"] = parquet(day, keys, rows)
    return files


def parquet(day: date, keys: np.ndarray, rows: int) -> bytes:
    """The content of a file.

    `keys`: the numbers of its rows, counted from 0 on the date. `rows`: the number of rows on the date.
    """
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
    """The share of the bytes of the query's two columns that a sum for one product reads, as a mean of ten products.

    `rows`: the number of rows on each date. `moment`: any text that makes the query's text new; otherwise the query
    could be answered from the cache.
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
