"""What a publish costs, and what one MERGE or one QUALIFY over the whole table would cost instead."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.billing import MIN_BYTES_BILLED, TIB, USD_PER_TIB
from dedup_clone.contract.engine import Engine
from dedup_clone.state.ledger import Cost
from dedup_clone.warehouse.metadata import JobMetadata

# Bytes billed, as multiples of the table's bytes; all are measured (docs/costs.md).
QUALIFY_READS = 2  # one QUALIFY reads target and the snapshot
MERGE_READS = 3  # one MERGE reads staging and the snapshot, and is billed for each partition that it updates
PUBLISH_READS = {Engine.SPARK: 0.0, Engine.BIGQUERY: 4.83, Engine.MERGE: 5.66}  # a whole publish, by engine
METADATA_QUERIES = 3  # per publish, each billed for MIN_BYTES_BILLED


def expected_cost(engine: Engine, *, table_bytes: int) -> Cost:
    """The cost of a future publish, without slot time. `table_bytes` as for `cost_of`."""
    bytes_read = round(PUBLISH_READS[engine] * table_bytes)
    billed = METADATA_QUERIES * MIN_BYTES_BILLED + bytes_read
    scan_usd = table_bytes / TIB * USD_PER_TIB
    return Cost(billed, bytes_read, 0, billed / TIB * USD_PER_TIB, MERGE_READS * scan_usd, QUALIFY_READS * scan_usd)


def cost_of(jobs: Iterable[JobMetadata], *, metadata_bytes_billed: int, table_bytes: int) -> Cost:
    """The cost of a publish by its jobs: queries are billed by bytes read; load, copy and extract jobs are free.

    `table_bytes`: logical size of staging. `metadata_bytes_billed`: bytes billed for the queries of the checks, which
    are not in `jobs`.
    """
    ended = list(jobs)
    queries = [job for job in ended if job.kind == "query"]
    billed = metadata_bytes_billed + sum(job.bytes_billed for job in queries)
    scan_usd = table_bytes / TIB * USD_PER_TIB
    return Cost(
        query_bytes_billed=billed,
        table_bytes_read=sum(job.bytes_processed for job in queries),
        slot_ms=sum(job.slot_ms for job in ended),
        query_usd=billed / TIB * USD_PER_TIB,
        merge_usd=MERGE_READS * scan_usd,
        qualify_usd=QUALIFY_READS * scan_usd,
    )
