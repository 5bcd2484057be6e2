"""Splits rows into the partitions of a table, and hides expired partitions and tables from readers.

A partition expires when its start in UTC plus the expiration has passed. Google's pages disagree on
whether the expiration counts from the start or the end of the day; the start is the stricter reading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.storage.model import NULL_PARTITION, WHOLE_TABLE, Dataset, TableId, TableSettings, TableVersion

# The length of a partition id, by what the partition has the rows of: YYYYMMDDHH, YYYYMMDD or YYYYMM.
# Source: "Introduction to partitioned tables", partition decorators.
ID_LENGTHS = {"HOUR": 10, "DAY": 8, "MONTH": 6}
_FORMATS = {10: "%Y%m%d%H", 8: "%Y%m%d", 6: "%Y%m"}


def partition_id(start: date | None, unit: str) -> str:
    # On Linux, %Y of a year before 1000 has fewer than four digits.
    return NULL_PARTITION if start is None else f"{start.year:04}{start:%m%d%H}"[: ID_LENGTHS[unit]]


def partition_ids(values: pa.ChunkedArray, settings: TableSettings) -> set[str]:
    """The partitions of rows with these values in the partitioning column. An unpartitioned table has one partition."""
    if settings.partition_column is None:
        return {WHOLE_TABLE} if len(values) else set()
    starts = pc.unique(_starts(values, settings.partition_unit))
    return {partition_id(start, settings.partition_unit) for start in starts.to_pylist()}


def split_rows(
    rows: pa.Table, settings: TableSettings, only: Collection[str] | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """Yields each partition id of a table with these settings, with its rows, which keep their order.

    `only`: the partitions to yield; None for all.
    """
    if rows.num_rows == 0:
        return
    if settings.partition_column is None:
        yield WHOLE_TABLE, rows
        return
    unit = settings.partition_unit
    starts = _starts(rows.column(settings.partition_column), unit)
    extremes = pc.min_max(starts).as_py()
    if only is None and extremes["min"] == extremes["max"] and starts.null_count in (0, rows.num_rows):
        yield partition_id(extremes["min"], unit), rows
        return
    for start in pc.unique(starts):
        key = partition_id(start.as_py(), unit)
        if only is None or key in only:
            yield key, rows.filter(pc.equal(starts, start) if start.is_valid else pc.is_null(starts))


def _starts(values: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """For each date or time, in UTC, when its partition begins."""
    if pa.types.is_date(values.type) and unit == "DAY":
        return values
    return pc.floor_temporal(values, unit=unit.lower())


def check_destination_partition(table: TableId, destination: str | None, partition: str) -> None:
    """Raises Invalid if a partition decorator names another partition than `partition`, to which some rows belong.

    `destination`: the partition in the decorator; None without a decorator.
    """
    if destination is not None and partition != destination:
        raise Invalid(
            f"Some rows belong to different partitions rather than destination partition {table}${destination}: "
            f"found rows of partition [{partition}]."
        )


def split_decorator(reference: TableId) -> tuple[TableId, str | None]:
    """The table without the decorator, and the partition id (None for the whole table).

    Raises Invalid for anything but an hour, a day, a month or `__NULL__`, NotImplementedConstruct for decorators that
    only legacy SQL has.
    """
    name, dollar, partition_id = reference.table.partition("$")
    if "@" in reference.table:
        raise NotImplementedConstruct(f"time decorator in table id {reference.table}")
    if not dollar:
        return reference, None
    if partition_id == "__PARTITIONS_SUMMARY__":
        raise NotImplementedConstruct("$__PARTITIONS_SUMMARY__: query INFORMATION_SCHEMA.PARTITIONS")
    if partition_id != NULL_PARTITION and not _is_start(partition_id):
        raise Invalid(
            f"Invalid partition decorator [${partition_id}] of {reference.project}:{reference.dataset}.{name}: "
            f"expected [$YYYYMMDDHH], [$YYYYMMDD], [$YYYYMM] or [${NULL_PARTITION}]."
        )
    return TableId(reference.project, reference.dataset, name), partition_id


def _is_start(text: str) -> bool:
    if len(text) not in _FORMATS or not text.isdigit():
        return False
    try:
        partition_start(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=20_000)  # each read of a table asks for the start of each of its partitions
def partition_start(partition_id: str) -> datetime | None:
    """When a partition begins; None for that of rows without a date, and for an unpartitioned table."""
    if partition_id in (WHOLE_TABLE, NULL_PARTITION):
        return None
    return datetime.strptime(partition_id, _FORMATS[len(partition_id)])  # noqa: DTZ007 (compared with days)


def partition_expires_us(partition_id: str, expiration_ms: int) -> int | None:
    """When the partition expires; None if it never does."""
    start = partition_start(partition_id)
    if start is None:
        return None
    return (start - datetime(1970, 1, 1)) // timedelta(microseconds=1) + expiration_ms * 1000  # noqa: DTZ001 (in UTC)


def with_dataset_defaults(settings: TableSettings, dataset: Dataset, created_us: int) -> TableSettings:
    """The settings of a new table. Its own settings take precedence over the dataset's defaults.

    A partitioned table of a dataset with both defaults gets only the one for partitions. Source: BigQuery's REST
    resource datasets, `defaultTableExpirationMs` and `defaultPartitionExpirationMs`. BigQuery's page "Optimize storage"
    says that `defaultTableExpirationMs` alone applies to the partitions of a partitioned table; here the whole table
    expires, which is the stricter reading. Neither page says whether a clone gets the defaults; here it does.
    """
    partition_ms, table_ms = dataset.default_partition_expiration_ms, dataset.default_table_expiration_ms
    if settings.partition_column is not None and partition_ms is not None:
        return replace(settings, partition_expiration_ms=settings.partition_expiration_ms or partition_ms)
    if settings.expires_us is None and table_ms is not None:
        return replace(settings, expires_us=created_us + table_ms * 1000)
    return settings


def without_expired(version: TableVersion, now_us: int) -> TableVersion:
    """The version without expired partitions, marked as dropped if the table has expired.

    The same object if nothing has expired.
    """
    if version.dropped:
        return version
    expires_us = version.settings.expires_us
    if expires_us is not None and expires_us < now_us:
        return replace(version, dropped=True, partitions={}, buffer=(), change_log=None)
    expiration_ms = version.settings.partition_expiration_ms
    if expiration_ms is None:
        return version
    remaining = {
        partition_id: partition
        for partition_id, partition in version.partitions.items()
        if (moment_us := partition_expires_us(partition_id, expiration_ms)) is None or moment_us >= now_us
    }
    return version if len(remaining) == len(version.partitions) else replace(version, partitions=remaining)
