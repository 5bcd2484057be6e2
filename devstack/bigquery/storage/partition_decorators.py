"""Splits a table id with a partition decorator, such as `table$20240131`."""

from __future__ import annotations

from datetime import date

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.storage.model import NULL_PARTITION, TableId


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
