"""Counts the bytes that a query scans, and those that BigQuery bills for it.

Constant filters prune partitions. A query scans the referenced columns of what is not pruned. BigQuery bills whole
megabytes, and at least 10 MB for each referenced table and INFORMATION_SCHEMA view. The blocks of clustered tables are
not pruned here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, StandInError
from bigquery_standin.jobs.table_reader import TableReader
from bigquery_standin.jobs.table_scans import TableScan, find_table_scans
from bigquery_standin.storage.access import check_read
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.partitions import partition_day

MEGABYTE = 1 << 20
MINIMUM_BILLED_BYTES = 10 * MEGABYTE

NAME_COLUMN = "_name"  # identifies a partition in the rows that a Prune function gets
Prune = Callable[[pa.Table, Sequence[exp.Expr]], set[str]]


@dataclass(frozen=True)
class ScannedBytes:
    """What a query reads.

    `sizes`: the scanned bytes of each table. `view_count`: the number of INFORMATION_SCHEMA views. `partition_sizes`:
    for each table, the full size of the partitions that are read.
    """

    sizes: Mapping[TableId, int]
    view_count: int
    partition_sizes: Mapping[TableId, int] = field(default_factory=dict)

    @property
    def processed(self) -> int:
        return sum(self.sizes.values())

    @property
    def billed(self) -> int:
        """The billed bytes. The minimum of each table does not apply to a query that scans no bytes of any table."""
        sizes = self.sizes.values()
        tables = sum(max(MINIMUM_BILLED_BYTES, -(-size // MEGABYTE) * MEGABYTE) for size in sizes) if any(sizes) else 0
        return tables + self.view_count * MINIMUM_BILLED_BYTES

    def plus(self, table: TableId, size: int) -> ScannedBytes:
        return replace(self, sizes={**self.sizes, table: self.sizes.get(table, 0) + size})


NOTHING_SCANNED = ScannedBytes({}, 0)


def check_bytes_billed(scanned: ScannedBytes, limit: int | None) -> None:
    """Raises StandInError if the query would be billed for more bytes."""
    if limit is not None and scanned.billed > limit:
        raise StandInError(
            f"Query exceeded limit for bytes billed: {limit}. {scanned.billed} or higher required.",
            "bytesBilledLimitExceeded",
        )


def count_scanned_bytes(
    tree: exp.Expression, reader: TableReader, prune: Prune, constants: Collection[str] = ()
) -> ScannedBytes:
    """Count the bytes that a query scans.

    Raises AccessDenied or NotImplementedConstruct if a policy denies the read, InvalidQuery if the table requires a
    partition filter that the query lacks, or that cannot be used because the query merges row changes.
    `prune(rows, conditions)` returns the values of NAME_COLUMN in the rows that fulfil the conditions. Each row has
    the day of a partition. `constants`: the names of script variables, in lower case.
    """
    scans = find_table_scans(tree, reader, constants)
    columns_by_partition: dict[tuple[TableId, int], dict[str, set[str]]] = {}
    versions: dict[tuple[TableId, int], TableVersion] = {}
    merged_sizes: dict[TableId, int] = {}
    sizes: dict[TableId, int] = {scan.table: 0 for scan in scans}
    partition_sizes = dict(sizes)
    for scan in scans:
        check_read(reader.caller, reader.catalog, scan.table, scan.version, scan.columns)
        if reader.merges_changes(scan.table, scan.version):
            _check_runtime_merge(scan)
            merged_sizes[scan.table] = bytes_with_changes(scan.version)
            continue
        key = (scan.table, scan.version.number)
        versions[key] = scan.version
        columns = {column.name for column in scan.version.settings.schema} if scan.columns is None else scan.columns
        for partition in _unpruned_partitions(scan, prune):
            columns_by_partition.setdefault(key, {}).setdefault(partition, set()).update(columns)
    for table, size in merged_sizes.items():
        sizes[table] += size
        partition_sizes[table] += size
    for key, partitions in columns_by_partition.items():
        sizes[key[0]] += _bytes_of_columns(versions[key], partitions)
        partition_sizes[key[0]] += sum(versions[key].partitions[partition].bytes for partition in partitions)
    return ScannedBytes(sizes, reader.view_count, partition_sizes)


def bytes_with_changes(version: TableVersion) -> int:
    """The bytes that an apply job reads, or a query that merges row changes: all rows and the pending changes.

    Neither prunes partitions.
    """
    return version.bytes + sum(segment.bytes for segment in version.pending_changes)


def _check_runtime_merge(scan: TableScan) -> None:
    if scan.version.settings.require_partition_filter:
        raise InvalidQuery(
            f"Table {scan.table} has require_partition_filter, which queries that merge streamed row changes do not "
            "support: set a higher max_staleness, or wait until the changes are applied"
        )


def _bytes_of_columns(version: TableVersion, columns_by_partition: Mapping[str, set[str]]) -> int:
    return sum(
        segment.column_bytes.get(column, 0)
        for partition, columns in columns_by_partition.items()
        for segment in version.partitions[partition].segments
        for column in columns
    )


def _unpruned_partitions(scan: TableScan, prune: Prune) -> Iterable[str]:
    """The partitions to read. Raises InvalidQuery if the table requires a filter on them that the query lacks."""
    settings, partitions = scan.version.settings, scan.version.partitions
    if settings.partition_column is None:
        return partitions
    if not scan.filters:
        if settings.require_partition_filter:
            raise InvalidQuery(
                f"Cannot query over table '{scan.table.project}.{scan.table.dataset}.{scan.table.table}' without a "
                f"filter over column(s) '{settings.partition_column}' that can be used for partition elimination"
            )
        return partitions
    keys = [(key, day) for key in partitions for day in _days(key)]
    days = pa.table(
        {
            NAME_COLUMN: pa.array([key for key, _ in keys], pa.string()),
            settings.partition_column: pa.array([day for _, day in keys], pa.date32()),
        }
    )
    return dict.fromkeys(prune(days, scan.filters))


def _days(partition_id: str) -> list[date | None]:
    """All days of a partition; None for rows without a date."""
    first = partition_day(partition_id)
    if first is None or len(partition_id) == 8:
        return [first]
    days = (first + timedelta(days=number) for number in range(31))
    return [day for day in days if day.month == first.month]
