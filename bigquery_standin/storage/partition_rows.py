"""Splits rows into the day partitions of a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.storage.model import NULL_PARTITION, WHOLE_TABLE, TableId


def partition_id(day: date | None) -> str:
    # On Linux, %Y of a year before 1000 has fewer than four digits.
    return NULL_PARTITION if day is None else f"{day.year:04}{day:%m%d}"


def split_rows(rows: pa.Table, column: str | None) -> Iterator[tuple[str, pa.Table]]:
    """Yields each partition id with its rows, in their order. `column`: the partitioning column; None if there is none.

    An unpartitioned table has one partition.
    """
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

    Raises Invalid for anything but a day or `__NULL__`, NotImplementedConstruct for decorators that only legacy SQL
    has.
    """
    name, dollar, partition_id = reference.table.partition("$")
    if "@" in reference.table:
        raise NotImplementedConstruct(f"time decorator in table id {reference.table}")
    if not dollar:
        return reference, None
    if partition_id == "__PARTITIONS_SUMMARY__":
        raise NotImplementedConstruct("$__PARTITIONS_SUMMARY__: query INFORMATION_SCHEMA.PARTITIONS")
    if partition_id != NULL_PARTITION and not _is_day(partition_id):
        raise Invalid(
            f"Invalid partition decorator [${partition_id}] of {reference.project}:{reference.dataset}.{name}: "
            f"expected [$YYYYMMDD] or [${NULL_PARTITION}]."
        )
    return TableId(reference.project, reference.dataset, name), partition_id


def _is_day(text: str) -> bool:
    if len(text) != 8 or not text.isdigit():
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
