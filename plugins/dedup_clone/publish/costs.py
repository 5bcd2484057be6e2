"""What a publish cost, and what the same publish by MERGE or QUALIFY over the whole table would have cost."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.engine import Engine
from dedup_clone.state.ledger import Cost
from dedup_clone.warehouse.facts import JobFacts

USD_PER_TIB = 6.25  # on demand, US
TIB = 2**40

# How often each statement alone is charged for the table (docs/costs.md has the measurement).
QUALIFY_READS = 2  # target and the snapshot
MERGE_READS = 3  # staging and the snapshot, and the full size of every partition that it updates

# What a whole publish reads of the table, by its engine (docs/costs.md), and the queries that every publish has.
PUBLISH_READS = {Engine.SPARK: 0.0, Engine.BIGQUERY: 4.83, Engine.MERGE: 5.66}
METADATA_QUERIES = 3
BYTES_BILLED_AT_LEAST = 10 * 2**20  # of each query of INFORMATION_SCHEMA


def expected_cost(engine: Engine, *, table_bytes: int) -> Cost:
    """Of a publish that is still to be made; slot time is not foretold. `table_bytes` as for `cost_of`."""
    scanned = round(PUBLISH_READS[engine] * table_bytes)
    billed = METADATA_QUERIES * BYTES_BILLED_AT_LEAST + scanned
    once = table_bytes / TIB * USD_PER_TIB
    return Cost(billed, scanned, 0, billed / TIB * USD_PER_TIB, MERGE_READS * once, QUALIFY_READS * once)


def cost_of(jobs: Iterable[JobFacts], *, metadata_bytes_billed: int, table_bytes: int) -> Cost:
    """Load, copy and extract jobs are free; queries are billed by bytes, of tables and of landed files alike.

    `table_bytes` is the logical size of staging; `metadata_bytes_billed` are those of the checks' queries, which are
    not among `jobs`.
    """
    done = list(jobs)
    queries = [job for job in done if job.kind == "query"]
    billed = metadata_bytes_billed + sum(job.bytes_billed for job in queries)
    once = table_bytes / TIB * USD_PER_TIB
    return Cost(
        query_bytes_billed=billed,
        table_bytes_read=sum(job.bytes_processed for job in queries),
        slot_ms=sum(job.slot_ms for job in done),
        query_usd=billed / TIB * USD_PER_TIB,
        merge_usd=MERGE_READS * once,
        qualify_usd=QUALIFY_READS * once,
    )
