"""Measures what BigQuery reads for a publish with each engine: `python -m benchmarks.engine_costs`.

Each engine, and each form of engine `bigquery`, publishes the same two snapshots on the stand-in. In the second
snapshot a thousandth of the rows is new, a thousandth is missing and a thousandth changed. All must give the same
table, except that engine `cdc` keeps the ids of unchanged rows.

For each BigQuery job the program prints the bytes that were processed or streamed, also as a multiple of the table's
size, and the slot time. It also prints the price for 15 TB and six publishes a day.

The stand-in's slot time is the wall time of DuckDB on this machine. It can roughly compare statements that read the
same bytes, but is no measure of BigQuery's slots, whose price is in docs/costs.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from dedup_clone.contract.billing import GIB, TIB, USD_PER_STREAMED_GIB, USD_PER_TIB
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.publish.attempt_jobs import attempt_job_id
from dedup_clone.warehouse.append_connection import ADDRESS_VARIABLE
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, row
from testkit.server_clients import open_clients, write_api_address
from testkit.table_contracts import PRODUCTS

DATES = 13
PRODUCTION_BYTES = 15 * 10**12
PUBLISHES_A_DAY = 6
Table = list[list[Any]]  # rows as sorted lists of comparable values (testkit's FeedAgainstOracle.table_rows)
# The steps whose names are in the ids of a publish's BigQuery jobs. The jobs validate the delivery, load it into
# incoming, count rows by date, fill staging, and swap.
STEPS = ("examine_1", "append_1", "evidence", "load", "swap")
BACKGROUND_JOBS = "cdc_background"  # prefix of the ids of the jobs by which the stand-in applies streamed rows


@dataclass(frozen=True)
class Way:
    """A way of publishing: an engine, and the form of its statement, which only engine `bigquery` uses."""

    engine: Engine
    form: SqlForm = SqlForm.QUALIFY

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.form}" if self.engine is Engine.BIGQUERY else str(self.engine)


WAYS = (Way(Engine.SPARK), *(Way(Engine.BIGQUERY, form) for form in SqlForm), Way(Engine.MERGE), Way(Engine.CDC))


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of a publish.

    `way`: the name of a Way. `step`: one of STEPS, `streamed rows`, or `apply` (of streamed rows). `processed`: the
    bytes that BigQuery processed, or that were streamed. `table_multiple`: these bytes divided by the table's size.
    `slot_ms`: the slot time; 0 for streamed rows. `usd_per_tib`: the price of a TiB of these bytes.
    """

    way: str
    step: str
    processed: int
    table_multiple: float
    slot_ms: int = 0
    usd_per_tib: float = USD_PER_TIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=26_000, help="rows of the table, in 13 dates")
    rows_per_date = parser.parse_args().rows // DATES
    first, second = snapshot(1, rows_per_date), snapshot(2, rows_per_date)
    tables, step_costs = [], []
    with tempfile.TemporaryDirectory() as folder, open_clients(Path(folder)) as clients:
        os.environ[ADDRESS_VARIABLE] = write_api_address(clients[1])
        for way in WAYS:
            feed = FeedAgainstOracle(clients, feed_with_table(PRODUCTS, way.engine, way.form))
            feed.publish(feed.land(1, first))
            record = feed.publish(feed.land(2, second))
            tables.append(feed.table_rows())
            step_costs += list(step_costs_of(feed, way, record.attempt))
    if any(without_update_ids(table) != without_update_ids(tables[0]) for table in tables):
        raise SystemExit("The engines made different tables, so their costs cannot be compared.")
    ways = "; ".join(dict.fromkeys(cost.way for cost in step_costs))
    print(f"{len(tables[0])} rows, {table_bytes(len(tables[0]))} bytes, equal for {ways}\n")
    print_tables(step_costs)


def without_update_ids(table: Table) -> Table:
    """The rows without their last column, because engine `cdc` keeps the former update id of an unchanged row."""
    return [row[:-1] for row in table]


def snapshot(snapshot_id: int, rows_per_date: int) -> list[Row]:
    """The rows of snapshot 1 or 2. In snapshot 2 one row in a thousand is missing, one is new, and one is changed."""
    is_second = snapshot_id == 2
    first_product = rows_per_date // 1000 if is_second else 0
    return [
        row(snapshot_id, product, 20 + (is_second and product % 1000 == 7), day=TODAY - timedelta(days=age))
        for age in range(DATES)
        for product in range(first_product, first_product + rows_per_date)
    ]


def table_bytes(rows: int) -> int:
    """BigQuery's logical size of the table with `rows` rows: each of its columns counts eight bytes per row."""
    return rows * 8 * len(PRODUCTS.columns)


def step_costs_of(feed: FeedAgainstOracle, way: Way, attempt: str) -> Iterator[StepCost]:
    """The costs of an attempt: of each of its BigQuery jobs, of the rows that it streamed, and of applying these."""
    size = table_bytes(feed.manifest().rows)
    for step in STEPS:
        job = feed.services.warehouse.job(attempt_job_id(feed.feed.feed, attempt, step, 1))
        if job is not None:
            yield StepCost(way.name, step, job.bytes_processed, job.bytes_processed / size, job.slot_ms)
    streamed = feed.services.streamed_changes.read(attempt)
    if streamed is None:
        return
    usd_per_tib = USD_PER_STREAMED_GIB * TIB / GIB
    yield StepCost(way.name, "streamed rows", streamed.size, streamed.size / size, usd_per_tib=usd_per_tib)
    for job in feed.bigquery.list_jobs(all_users=True):
        if job.job_id.startswith(BACKGROUND_JOBS) and job.total_bytes_processed:
            processed = job.total_bytes_processed
            yield StepCost(way.name, "apply", processed, processed / size, job.slot_millis or 0)


def print_tables(step_costs: list[StepCost]) -> None:
    print("| Way | Job | Bytes processed | Times the table | Slot ms here |\n| --- | --- | --- | --- | --- |")
    for cost in step_costs:
        print(f"| {cost.way} | {cost.step} | {cost.processed:,} | {cost.table_multiple:.2f} | {cost.slot_ms:,} |")
    print(
        "\n| Way | Times the table | USD per publish of 15 TB | USD per day, six publishes |\n| --- | --- | --- | --- |"
    )
    for way in dict.fromkeys(cost.way for cost in step_costs):
        costs = [cost for cost in step_costs if cost.way == way]
        table_multiple = sum(cost.table_multiple for cost in costs)
        usd = sum(cost.table_multiple * cost.usd_per_tib for cost in costs) * PRODUCTION_BYTES / TIB
        print(f"| {way} | {table_multiple:.2f} | {usd:,.0f} | {PUBLISHES_A_DAY * usd:,.0f} |")


if __name__ == "__main__":
    main()
