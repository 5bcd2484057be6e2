"""Computes what a publish costs, and what one MERGE or one QUALIFY would cost instead.

BigQuery bills a query for whole megabytes, and for at least 10 MB of each table that it references (BigQuery's page
"Pricing", on-demand queries). All costs here include these minimum charges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from dedup_clone.contract.costs import GIB, MIB, MIN_BYTES_BILLED, TIB, USD_PER_STREAMED_GIB, USD_PER_TIB
from dedup_clone.contract.manifest import DateOutcome, Manifest
from dedup_clone.contract.table import ColumnMode, TableContract
from dedup_clone.state.ledger import Cost
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata

# Bytes of a value by type (BigQuery's page "Data types", data type sizes). The size of other types varies.
_VALUE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("INT64", "FLOAT64", "DATE", "DATETIME", "TIME", "TIMESTAMP"), 8),
    **{"BOOL": 1, "NUMERIC": 16, "BIGNUMERIC": 32},
}


def cost_of(
    jobs: Iterable[JobMetadata],
    *,
    checks_billed: int,
    streamed: StreamedChanges | None = None,
    table_bytes: int = 0,
    spark_usd: float | None = None,
) -> Cost:
    """The cost of an attempt, from its jobs: queries are billed by bytes read; load, copy and extract jobs are free.

    `checks_billed`: bytes billed for the feed's own queries, which are not in `jobs`. `streamed`: what engine `cdc`
    streamed into a table of `table_bytes` logical bytes. Queries of metadata, 10 MB each, are not counted.

    To apply changes, however few, BigQuery's background job reads the whole table, billed on demand unless a
    reservation is assigned to such jobs (BigQuery's page "Stream table updates with change data capture", pricing).
    """
    billed = checks_billed + sum(job.bytes_billed for job in jobs if job.kind == "query")
    size, to_apply = 0, 0
    if streamed is not None:
        size = streamed.size
        to_apply = billed_bytes(table_bytes) if size else 0
    return Cost(
        query_bytes_billed=billed,
        query_usd=usd_on_demand(billed),
        streamed_bytes=size,
        stream_usd=size / GIB * USD_PER_STREAMED_GIB + usd_on_demand(to_apply),
        spark_usd=spark_usd,
    )


def merge_and_qualify_usd(
    manifest: Manifest, parent: Manifest | None, table_bytes: int
) -> tuple[float, float] | tuple[None, None]:
    """The cost of one MERGE, and of one QUALIFY, with this manifest's result. `table_bytes`: logical size of staging.

    None for an empty table, and for generations that apply no delivery (rollback, bootstrap, rebuild, erasure), for
    which nobody would run a MERGE or QUALIFY.
    """
    if not manifest.applied or not manifest.rows:
        return None, None
    delivered = {e.date: e.rows - e.survivors for e in manifest.dates if e.plan is not DateOutcome.COPIED_FORWARD}
    existing = sum(e.rows for e in parent.dates if e.date in delivered) if parent else 0
    row_bytes = table_bytes / manifest.rows
    merge, qualify = merge_and_qualify_bytes(
        manifest.table, row_bytes, delivered=sum(delivered.values()), existing=existing
    )
    return usd_on_demand(merge), usd_on_demand(qualify)


def merge_and_qualify_bytes(
    table: TableContract, row_bytes: float, *, delivered: float, existing: float
) -> tuple[int, int]:
    """The bytes billed for one MERGE, and for one QUALIFY, of `delivered` rows and `existing` ones on the same dates.

    QUALIFY reads both inputs once and writes the delivered dates anew. MERGE reads the snapshot and the existing keys
    (with the snapshot id's column), and is billed for all bytes of each partition that it updates.
    """
    keys = _share_of(table, row_bytes, {*table.keys, table.snapshot_id_column})
    snapshot, rows = delivered * row_bytes, existing * row_bytes
    return billed_bytes(snapshot, rows * keys + rows), billed_bytes(snapshot, rows)


def _share_of(table: TableContract, row_bytes: float, names: set[str]) -> float:
    """The share of a row's bytes in the named columns. Columns of varying size share equally what the others leave."""
    repeated = ColumnMode.REPEATED
    fixed = {c.name: _VALUE_BYTES[c.type] for c in table.columns if c.type in _VALUE_BYTES and c.mode is not repeated}
    varying = len(table.columns) - len(fixed)
    left = max(row_bytes - sum(fixed.values()), 0) / varying if varying else 0
    return min(sum(fixed.get(name, left) for name in names) / row_bytes, 1) if row_bytes else 0


def billed_bytes(*tables: float) -> int:
    """The bytes billed for a query that reads these numbers of bytes, one number for each table."""
    return sum(max(MIN_BYTES_BILLED, ceil(size / MIB) * MIB) for size in tables)


def usd_on_demand(bytes_billed: int) -> float:
    """The price of queries for which BigQuery bills `bytes_billed`, in US dollars."""
    return bytes_billed / TIB * USD_PER_TIB


def price_text(bytes_billed: int) -> str:
    """The price of such queries, as text."""
    return f"{size_text(bytes_billed)}, {usd_on_demand(bytes_billed):.2f} USD on demand"


def size_text(size: int) -> str:
    """A number of bytes, as text."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
