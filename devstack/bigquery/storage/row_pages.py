"""Reads rows of a table version by position, for pages of results. The caller pins the version (`Catalog.pin`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.storage.arrow_schema import arrow_schema, conform
from devstack.bigquery.storage.model import Segment, TableVersion
from devstack.bigquery.storage.segment_store import SegmentStore


def read_page(
    store: SegmentStore, version: TableVersion, start: int, count: int, columns: Sequence[str], partition: str | None
) -> pa.Table:
    """Up to `count` rows from `start` on, ordered by partition, segment and position in the file.

    Rows in the streaming buffer are left out, and `start` counts the others from 0.
    `columns`: the names of the columns to read. `partition`: the only partition to read; None for all.
    """
    schema = [column for column in version.settings.schema if column.name in columns]
    parts = [arrow_schema(schema).empty_table()]
    for segment in version.segments(partition):
        if count <= 0:
            break
        if start >= segment.rows:
            start -= segment.rows
            continue
        page = _read_rows(store, segment, [column.name for column in schema], start, count)
        parts.append(conform(page, schema))
        count -= page.num_rows
        start = 0
    return pa.concat_tables(parts)


def _read_rows(store: SegmentStore, segment: Segment, columns: list[str], start: int, count: int) -> pa.Table:
    """Reads only the row groups that contain the page."""
    with pq.ParquetFile(store.path(segment)) as file:
        groups, skipped, first = [], 0, 0
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            if first + rows <= start:
                skipped += rows
            elif first < start + count:
                groups.append(number)
            first += rows
        return file.read_row_groups(groups, columns=columns).slice(start - skipped, count)
