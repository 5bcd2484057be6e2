"""Splits rows into the partitions of a table, and hides expired partitions and tables from readers.

A partition expires when the start of its first UTC day plus the expiration has passed. Google's pages disagree on
whether the expiration counts from the start or the end of the day; the start is the stricter reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.clock import DAY_US
from bigquery_standin.storage.model import NULL_PARTITION, WHOLE_TABLE, Dataset, TableId, TableSettings, TableVersion


def partition_id(day: date | None) -> str:
    # On Linux, %Y of a year before 1000 has fewer than four digits.
    return NULL_PARTITION if day is None else f"{day.year:04}{day:%m%d}"


def split_rows(rows: pa.Table, settings: TableSettings) -> Iterator[tuple[str, pa.Table]]:
    """Yields each partition id of a table with these settings, with its rows. Those of a day keep their order.

    An unpartitioned table has one partition.
    """
    if not settings.by_month:
        yield from _split_days(rows, settings.partition_column)
        return
    months: dict[str, list[pa.Table]] = {}
    for key, part in _split_days(rows, settings.partition_column):
        months.setdefault(key if key == NULL_PARTITION else key[:6], []).append(part)
    yield from ((key, pa.concat_tables(parts)) for key, parts in months.items())


def _split_days(rows: pa.Table, column: str | None) -> Iterator[tuple[str, pa.Table]]:
    if rows.num_rows == 0:
        return
    if column is None:
        yield WHOLE_TABLE, rows
        return
    days = rows.column(column)
    extremes = pc.min_max(days).as_py()
    if extremes["min"] == extremes["max"] and days.null_count in (0, rows.num_rows):
        yield partition_id(extremes["min"]), rows
        return
    for day in pc.unique(days).to_pylist():
        in_partition = pc.is_null(days) if day is None else pc.equal(days, pa.scalar(day, pa.date32()))
        yield partition_id(day), rows.filter(in_partition)


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

    Raises Invalid for anything but a day, a month or `__NULL__`, NotImplementedConstruct for decorators that only
    legacy SQL has.
    """
    name, dollar, partition_id = reference.table.partition("$")
    if "@" in reference.table:
        raise NotImplementedConstruct(f"time decorator in table id {reference.table}")
    if not dollar:
        return reference, None
    if partition_id == "__PARTITIONS_SUMMARY__":
        raise NotImplementedConstruct("$__PARTITIONS_SUMMARY__: query INFORMATION_SCHEMA.PARTITIONS")
    if partition_id != NULL_PARTITION and not _is_day_or_month(partition_id):
        raise Invalid(
            f"Invalid partition decorator [${partition_id}] of {reference.project}:{reference.dataset}.{name}: "
            f"expected [$YYYYMMDD], [$YYYYMM] or [${NULL_PARTITION}]."
        )
    return TableId(reference.project, reference.dataset, name), partition_id


def _is_day_or_month(text: str) -> bool:
    if len(text) not in (6, 8) or not text.isdigit():
        return False
    try:
        date.fromisoformat(f"{text}01"[:8])
    except ValueError:
        return False
    return True


@lru_cache(maxsize=20_000)  # each read of a table asks for the day of each of its partitions
def partition_day(partition_id: str) -> date | None:
    """The first day of a partition; None for that of rows without a date, and for an unpartitioned table."""
    if partition_id in (WHOLE_TABLE, NULL_PARTITION):
        return None
    return datetime.strptime(f"{partition_id}01"[:8], "%Y%m%d").date()  # noqa: DTZ007 (a day has no zone)


def partition_expires_us(partition_id: str, expiration_ms: int) -> int | None:
    """When the partition expires; None if it never does."""
    day = partition_day(partition_id)
    if day is None:
        return None
    days = (day - date(1970, 1, 1)).days
    return days * DAY_US + expiration_ms * 1000


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
