"""Makes inputs with which every check passes. A test changes one value in them to make a check fail.

`changes` of a function: other values of the fields of what it makes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, DateEntry, DateOutcome, FileList, Manifest
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.warehouse.metadata import Observation, PartitionMetadata, TableMetadata
from tests.shared import freshness_states, page_feeds

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
COLUMNS = (Column("date", "DATE"), Column("product_id", "INT64"), Column("v", "INT64"), Column("update_id", "INT64"))
TABLE = TableContract(COLUMNS, "date", "update_id", ("date", "product_id"), ("product_id",), 730)


def entry(day: date, rows: int = 10, **changes: Any) -> DateEntry:
    return replace(page_feeds.entry(day, rows, 0), **{"plan": DateOutcome.WINDOW, "max_update_id": 7, **changes})


def manifest(*entries: DateEntry, generation: int = 2, parent: int | None = 1) -> Manifest:
    newest = (Delivery(7, 1),)
    return page_feeds.manifest("f", generation, entries, parent=parent, table=TABLE, deliveries=newest, applied=newest)


def files(*counts: tuple[date, int]) -> FileList:
    """A list with one file for each date and its number of rows."""
    return FileList(tuple(DataFile(f"date={d}/a.parquet", d, n, 1, 1, 7) for d, n in counts))


def table(name: str = "f_staging", **changes: object) -> TableMetadata:
    layout = {"columns": COLUMNS, "cluster_by": ("product_id",), "labels": {}, "clone_of": None, "clone_time": None}
    return freshness_states.table(**{"name": name, "rows": 10, **layout, **changes})


def partition(day: date | None, rows: int = 10, changed: datetime = NOW - timedelta(minutes=1)) -> PartitionMetadata:
    """A partition; that of NULL if `day` is None. `changed`: the time of its last change."""
    return PartitionMetadata("__NULL__" if day is None else day.strftime("%Y%m%d"), rows, changed)


def observation(*partitions: PartitionMetadata) -> Observation:
    return Observation(table(), partitions, NOW)
