"""Computes what a publish costs, and what one MERGE or one QUALIFY would cost instead.

BigQuery bills a query for whole megabytes, and for at least 10 MB of each table that it references (BigQuery's page
"Pricing", on-demand queries). All costs here include these minimum charges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from dedup_clone.contract.costs import GIB, MIB, MIN_BYTES_BILLED, TIB, USD_PER_STREAMED_GIB, USD_PER_TIB, SparkUsage
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import DateOutcome, Manifest
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.state.ledger import Cost
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata

METADATA_QUERIES = 2  # of a publish: before and after the swap; each is billed for MIN_BYTES_BILLED
# Bytes of a value by type (BigQuery's page "Data types", data type sizes). The size of other types varies.
_VALUE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("INT64", "FLOAT64", "DATE", "DATETIME", "TIME", "TIMESTAMP"), 8),
    **{"BOOL": 1, "NUMERIC": 16, "BIGNUMERIC": 32},
}


@dataclass(frozen=True)
class MergeInput:
    """What one MERGE or QUALIFY of a publish would work on, in logical bytes.

    `delivered`: size of the newest snapshot's rows. `existing`: size of the rows that the table has already on the
    delivered dates. `existing_keys`: the part of `existing` in the key columns and the snapshot id's column.
    """

    delivered: float
    existing: float
    existing_keys: float

    @property
    def qualify_bytes_billed(self) -> int:
        """QUALIFY reads both inputs once and writes the delivered dates anew."""
        return _billed(self.delivered, self.existing)

    @property
    def merge_bytes_billed(self) -> int:
        """MERGE reads the snapshot and the existing keys, and is billed for all bytes of each partition it updates."""
        return _billed(self.delivered, self.existing_keys + self.existing)


def merge_input(manifest: Manifest, parent: Manifest | None, table_bytes: int) -> MergeInput | None:
    """The input of a MERGE with this manifest's result. `table_bytes`: logical size of staging.

    None for an empty table, and for generations that apply no delivery (rollback, bootstrap, rebuild, erasure), for
    which nobody would run a MERGE or QUALIFY.
    """
    if not manifest.applied or not manifest.rows:
        return None
    delivered = {e.date: e.rows - e.survivors for e in manifest.dates if e.plan is not DateOutcome.COPIED_FORWARD}
    existing = sum(e.rows for e in parent.dates if e.date in delivered) if parent else 0
    row_bytes = table_bytes / manifest.rows
    return merge_input_of_rows(manifest.table, row_bytes, delivered=sum(delivered.values()), existing=existing)


def merge_input_of_rows(table: TableContract, row_bytes: float, *, delivered: float, existing: float) -> MergeInput:
    """The input of a MERGE of `delivered` rows into `existing` ones, of `row_bytes` each."""
    keys = _share_of(table, row_bytes, {*table.keys, table.snapshot_id_column})
    return MergeInput(delivered * row_bytes, existing * row_bytes, existing * row_bytes * keys)


def expected_cost(engine: Engine, table: TableContract, row_bytes: float, *, delivered: float, existing: float) -> Cost:
    """The cost of a future publish of one delivery, without slot time, streamed changes and Spark.

    `delivered`, `existing`: the rows of the delivery, and those that the table has already on its dates.
    """
    merged = merge_input_of_rows(table, row_bytes, delivered=delivered, existing=existing)
    billed = METADATA_QUERIES * MIN_BYTES_BILLED
    read = 0.0
    if not engine.runs_spark:
        keys = _share_of(table, row_bytes, {*table.keys, table.snapshot_id_column})
        # The examination of the landed files, then the counts by date.
        billed += _billed(merged.delivered * keys) + _billed(merged.delivered, merged.existing)
        billed += merged.qualify_bytes_billed if engine is Engine.BIGQUERY else merged.merge_bytes_billed
        read = merged.delivered * keys + 2 * (merged.delivered + merged.existing)
        read += merged.existing_keys if engine is Engine.MERGE else 0
    return Cost(
        query_bytes_billed=billed,
        table_bytes_read=round(read),
        slot_ms=0,
        query_usd=usd_on_demand(billed),
        merge_usd=usd_on_demand(merged.merge_bytes_billed),
        qualify_usd=usd_on_demand(merged.qualify_bytes_billed),
    )


def cost_of(
    jobs: Iterable[JobMetadata],
    *,
    metadata_bytes_billed: int,
    merged: MergeInput | None,
    streamed: StreamedChanges | None = None,
    table_bytes: int = 0,
    usage: SparkUsage | None = None,
    job_seconds: float | None = None,
) -> Cost:
    """The cost of an attempt, from its jobs: queries are billed by bytes read; load, copy and extract jobs are free.

    `metadata_bytes_billed`: bytes billed for the queries of the checks, which are not in `jobs`. `merged`: the input
    that a MERGE would have instead. `streamed`: what engine `cdc` streamed into a table of `table_bytes` logical bytes.
    `usage`: of the Spark runs; None if none reported it. `job_seconds`: see `SparkUsage.usd`.

    To apply changes, however few, BigQuery's background job reads the whole table, billed on demand unless a
    reservation is assigned to such jobs (BigQuery's page "Stream table updates with change data capture", pricing).
    """
    ended = list(jobs)
    queries = [job for job in ended if job.kind == "query"]
    billed = metadata_bytes_billed + sum(job.bytes_billed for job in queries)
    billed += streamed.bytes_billed if streamed else 0
    streamed_bytes = streamed.size if streamed else 0
    apply_bytes = _billed(table_bytes) if streamed_bytes else 0
    return Cost(
        query_bytes_billed=billed,
        table_bytes_read=sum(job.bytes_processed for job in queries),
        slot_ms=sum(job.slot_ms for job in ended),
        query_usd=usd_on_demand(billed),
        merge_usd=None if merged is None else usd_on_demand(merged.merge_bytes_billed),
        qualify_usd=None if merged is None else usd_on_demand(merged.qualify_bytes_billed),
        streamed_bytes=streamed_bytes,
        apply_bytes=apply_bytes,
        stream_usd=streamed_bytes / GIB * USD_PER_STREAMED_GIB + usd_on_demand(apply_bytes),
        spark_usd=usage.usd(job_seconds) if usage else None,
        dcu_hours=usage.all_dcu_hours if usage else None,
    )


def _billed(*tables: float) -> int:
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


def _share_of(table: TableContract, row_bytes: float, names: set[str]) -> float:
    """The share of a row's bytes in the named columns. Columns of varying size share equally what the others leave."""
    fixed = {c.name: _VALUE_BYTES[c.type] for c in table.columns if _has_fixed_size(c)}
    varying = [c.name for c in table.columns if c.name not in fixed]
    left = max(row_bytes - sum(fixed.values()), 0) / len(varying) if varying else 0
    named = sum(fixed.get(name, left) for name in names)
    return min(named / row_bytes, 1) if row_bytes else 0


def _has_fixed_size(column: Column) -> bool:
    return column.type in _VALUE_BYTES and column.mode is not ColumnMode.REPEATED
