"""Bytes that each engine makes BigQuery read for the same publish: `python -m benchmarks.engine_costs`.

One table, one snapshot of it of which a thousandth is new, missing and changed, published by each engine on servers of
its own. The results are compared first; then the job statistics are printed, as multiples of the table's size, and what
they mean for a table of 15 TB that is published six times a day.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from dedup_clone.contract.engine import Engine
from dedup_clone.publish.costs import TIB, USD_PER_TIB
from dedup_clone.publish.jobs import attempt_job_id
from tests.contract.engines.engine_world import EngineWorld, feed_of
from tests.contract.publish.feed_world import TODAY, row
from tests.contract.publish.python_dedup import Row
from tests.contract.publish.servers import open_clients
from tests.spark.tables import PRODUCTS

DATES = 13
PRODUCTION_BYTES = 15 * 10**12
PUBLISHES_A_DAY = 6
STEPS = ("examine_1", "append_1", "evidence", "load", "swap")


@dataclass(frozen=True)
class StepCost:
    """Bytes processed by one job; `share` is a multiple of the table's size."""

    engine: Engine
    step: str
    processed: int
    share: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=26_000, help="rows of the table, in 13 dates")
    rows_a_date = parser.parse_args().rows // DATES
    first, second = snapshot(1, rows_a_date), snapshot(2, rows_a_date)
    tables, found = [], []
    with tempfile.TemporaryDirectory() as folder, open_clients(Path(folder)) as clients:
        for engine in Engine:
            world = EngineWorld(clients, feed_of(PRODUCTS))
            world.publish(world.land(1, first), engine=engine)
            record = world.publish(world.land(2, second), engine=engine)
            tables.append(world.table_rows())
            found += list(costs(world, engine, record.attempt))
    if any(table != tables[0] for table in tables):
        raise SystemExit("The engines gave different tables: the costs mean nothing.")
    print(f"{len(tables[0])} rows, {table_bytes(len(tables[0]))} bytes, equal for {', '.join(Engine)}\n")
    show(found)


def snapshot(snapshot_id: int, rows_a_date: int) -> list[Row]:
    """Of the second snapshot every thousandth row is missing, another one new and another one changed."""
    missing = snapshot_id - 1
    return [
        row(snapshot_id, n, 20 + missing * (n % 1000 == 7), day=TODAY - timedelta(days=day))
        for day in range(DATES)
        for n in range(missing * (rows_a_date // 1000), rows_a_date + missing * (rows_a_date // 1000))
    ]


def table_bytes(rows: int) -> int:
    """Six columns of eight bytes."""
    return rows * 8 * len(PRODUCTS.columns)


def costs(world: EngineWorld, engine: Engine, attempt: str) -> Iterator[StepCost]:
    size = table_bytes(world.manifest().rows)
    for step in STEPS:
        job = world.services.warehouse.job(attempt_job_id(world.feed.feed, attempt, step, 1))
        if job is not None:
            yield StepCost(engine, step, job.bytes_processed, job.bytes_processed / size)


def show(found: list[StepCost]) -> None:
    print("| Engine | Job | Bytes processed | Times the table |\n| --- | --- | --- | --- |")
    for item in found:
        print(f"| {item.engine} | {item.step} | {item.processed:,} | {item.share:.2f} |")
    print(
        "\n| Engine | Times the table | USD a publish of 15 TB | USD a day, six publishes |\n| --- | --- | --- | --- |"
    )
    for engine in Engine:
        share = sum(item.share for item in found if item.engine is engine)
        usd = share * PRODUCTION_BYTES / TIB * USD_PER_TIB
        print(f"| {engine} | {share:.2f} | {usd:,.0f} | {PUBLISHES_A_DAY * usd:,.0f} |")


if __name__ == "__main__":
    main()
