"""Hides expired partitions and tables from readers, and gives new tables the expirations of their dataset.

A partition expires when the start of its UTC day plus the expiration has passed. Google's pages disagree on whether the
expiration counts from the start or the end of the day; the start is the stricter reading.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache

from bigquery_standin.clock import DAY_US
from bigquery_standin.storage.model import NULL_PARTITION, WHOLE_TABLE, Dataset, TableSettings, TableVersion


@lru_cache(maxsize=20_000)  # each read of a table asks for the day of each of its partitions
def partition_day(partition_id: str) -> date | None:
    """The day of a partition; None for the partition of rows without a date, and for an unpartitioned table."""
    if partition_id in (WHOLE_TABLE, NULL_PARTITION):
        return None
    return datetime.strptime(partition_id, "%Y%m%d").date()  # noqa: DTZ007 (a day has no zone)


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
