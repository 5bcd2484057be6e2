"""Adds streamed rows to a table's streaming buffer, and moves them to the table's partitions some time later.

Queries see the rows at once. Clones, copies, extract jobs, tabledata.list and the table's sizes include them only when
they are in the partitions. Sources, in BigQuery's documentation: "Use the Storage Write API (REST)", stream data
availability; "Introduction to table clones", limitations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bigquery_standin.bigquery_errors import NotFound
from bigquery_standin.clock import MICROSECONDS, to_datetime
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import BufferedRows, Partition, Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.quotas import FLUSHED, STREAMED
from bigquery_standin.storage.segment_store import SegmentBatch
from bigquery_standin.storage.table_change import Change

# How long rows stay in the buffer. BigQuery states no limit: usually it is some minutes, in rare cases 90.
BUFFER_US = 5 * 60 * MICROSECONDS
# With more requests than this in the buffer, rows leave it in the garbage collector's next sweep. This keeps appends
# fast, because each version of the table lists all requests in the buffer.
MAXIMUM_REQUESTS = 1_000
# The dates that streamed rows may have: from ten years ago to a year from now, with their leap days.
_PAST_DAYS, _FUTURE_DAYS = 3653, 366

# Makes the rows to add to the buffer. Gets the current version, the commit time in microseconds, and a batch for the
# new segments.
MakeRows = Callable[[TableVersion, int, SegmentBatch], Sequence[BufferedRows]]


def stream_rows(catalog: Catalog, table: TableId, make_rows: MakeRows) -> TableVersion:
    """Adds the rows that `make_rows` makes to the table's buffer, and returns the committed version.

    `make_rows` runs under the table's lock, so that the rows fit its schema. If it raises, nothing changes. Raises
    NotFound if the table does not exist.
    """
    with catalog.segments.batch() as batch:

        def build(current: TableVersion | None, commit_us: int) -> Change:
            if current is None:
                raise NotFound(f"Not found: Table {table}")
            buffer = (*current.buffer, *make_rows(current, commit_us, batch))
            return Change(STREAMED, current.settings, current.partitions, current.clone, buffer=buffer)

        return catalog.commit(table, build)


def check_day(settings: TableSettings, row: Mapping[str, Any], now_us: int) -> None:
    """Raises ValueError if the row's partitioning column has a day that streamed rows cannot have."""
    day = None if settings.partition_column is None else row.get(settings.partition_column)
    today = to_datetime(now_us).date()
    first, last = today - timedelta(days=_PAST_DAYS), today + timedelta(days=_FUTURE_DAYS)
    if day is not None and not first <= day <= last:
        raise ValueError(
            f"Field {settings.partition_column}: [{day}] is not from {first} to {last}, as streamed rows must be"
        )


def flush_buffers(catalog: Catalog) -> int:
    """Moves the rows that were in a buffer for long enough to their partitions. Returns how many tables changed."""
    changed = 0
    for table, _ in catalog.histories():
        version = catalog.find(table)
        if version is not None and _segments_due(version, catalog.clock.now_us()):
            try:
                _flush(catalog, table)
            except NotFound:  # the table was dropped meanwhile, or its dataset
                continue
            changed += 1
    return changed


def _flush(catalog: Catalog, table: TableId) -> None:
    with catalog.segments.batch() as batch:

        def build(current: TableVersion | None, commit_us: int) -> Change:
            """Reads and writes under the table's lock, so that no statement changes the rows meanwhile."""
            if current is None:
                raise NotFound(f"Not found: Table {table}")
            due = _segments_due(current, commit_us)
            streamed = catalog.segments.read_all(due, current.settings.schema)
            partitions = dict(current.partitions)
            for key, rows in split_rows(streamed, current.settings):
                earlier = current.segments(key)
                partitions[key] = Partition((*earlier, batch.write(rows)), commit_us)
            files = {segment.file for segment in due}
            remaining = tuple(rows for rows in current.buffer if rows.segment.file not in files)
            return Change(FLUSHED, current.settings, partitions, current.clone, buffer=remaining)

        catalog.commit(table, build)


def _segments_due(version: TableVersion, now_us: int) -> list[Segment]:
    buffer_us = BUFFER_US if len(version.buffer) <= MAXIMUM_REQUESTS else 0
    return [rows.segment for rows in version.buffer if now_us - rows.received_us >= buffer_us]
