"""Rewrites the segments (Parquet files) of a table that gets columns, because all rows must have all columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq

from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.arrow_schema import conform
from devstack.bigquery.storage.model import Segment, TableVersion
from devstack.bigquery.storage.segment_store import SegmentBatch, SegmentStore


def with_new_columns(
    segments: SegmentStore, current: TableVersion, schema: tuple[TableField, ...], batch: SegmentBatch
) -> TableVersion:
    """The version with all rows, also buffered ones, in segments that have all columns of the new schema.

    The change log stays: its changes get the new columns when they are read.
    """

    def widened(segment: Segment) -> Segment:
        rows = pq.read_table(segments.path(segment), partitioning=None)
        return batch.write(conform(rows, schema))

    partitions = {
        key: replace(partition, segments=tuple(widened(segment) for segment in partition.segments))
        for key, partition in current.partitions.items()
    }
    buffer = tuple(replace(rows, segment=widened(rows.segment)) for rows in current.buffer)
    return replace(current, partitions=partitions, buffer=buffer)
