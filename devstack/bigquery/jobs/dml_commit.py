"""Writes the changes of a DML statement as new segments, and commits them.

A statement reads a snapshot. If another statement has changed the same partitions since, the commit raises
`ConcurrentUpdate`, and the caller runs the statement again on the newer rows. Rows that an INSERT added meanwhile stay.
Partitions that the statement does not change keep their segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.row_changes import RowChanges
from devstack.bigquery.sql.field_types import quote_identifier
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import BufferedRows, Partition, Segment, TableId, TableVersion
from devstack.bigquery.storage.partition_rows import split_rows
from devstack.bigquery.storage.quotas import FLUSHED, STREAMED
from devstack.bigquery.storage.segment_store import SegmentBatch
from devstack.bigquery.storage.table_change import Change
from devstack.bigquery.storage.version_relation import (
    ROW_ID,
    relation_sql,
    rows_in_segments,
    segment_number,
    segment_numbers,
)


class ConcurrentUpdate(InvalidQuery):
    """Another statement changed the same partitions while this one ran."""

    def __init__(self, table: TableId) -> None:
        super().__init__(f"Could not serialize access to table {table} due to concurrent update")


@dataclass(frozen=True)
class PartitionWrites:
    """New segments by partition: `replaced` partitions are rewritten, `added` ones only get more rows.

    `buffered`: by the file of a segment in the streaming buffer, the segment with those of its rows that stay there, or
    None if none does. Rows that are updated leave the buffer.
    """

    replaced: Mapping[str, tuple[Segment, ...]]
    added: Mapping[str, tuple[Segment, ...]]
    buffered: Mapping[str, Segment | None]


@dataclass(frozen=True)
class UpdatedRows:
    """Where rows are changed or deleted.

    `partitions`: they are rewritten, and BigQuery bills their full size. `buffered`: the positions, in
    `version.queried_segments()`, of segments in the streaming buffer.
    """

    partitions: set[str]
    buffered: list[int]


def updated_rows(table: TableId, version: TableVersion, changes: RowChanges, session: DuckDbSession) -> UpdatedRows:
    """Where the statement changes or deletes rows. Raises InvalidQuery if insertAll has written one of them recently.

    Source: "Data manipulation language (DML)", limitations.
    """
    _, numbers_of_changed = session.run(f"SELECT DISTINCT {segment_number(ROW_ID)} AS number FROM {changes.removed}")
    changed = set(numbers_of_changed.column(0).to_pylist())
    first = len(version.segments())
    buffered = sorted(number for number in changed if number >= first)
    if any(version.buffer[number - first].by_insert_all for number in buffered):
        raise affects_buffer("UPDATE or DELETE", table)
    partitions = {key for key, numbers in segment_numbers(version).items() if not changed.isdisjoint(numbers)}
    return UpdatedRows(partitions, buffered)


def affects_buffer(statement: str, table: TableId) -> InvalidQuery:
    return InvalidQuery(
        f"{statement} statement over table {table.project}.{table.dataset}.{table.table} would affect rows in the "
        "streaming buffer, which is not supported"
    )


def write_partitions(
    table: TableId,
    version: TableVersion,
    changes: RowChanges,
    updated: UpdatedRows,
    session: DuckDbSession,
    catalog: Catalog,
    batch: SegmentBatch,
) -> PartitionWrites:
    """Writes the segments: one for each partition and each buffered segment that changes."""
    new = dict(split_rows(changes.new_rows, version.settings.partition_column))
    columns = ", ".join(f"_old.{quote_identifier(column.name)}" for column in version.settings.schema)

    def unchanged_rows(numbers: range) -> pa.Table:
        rows = relation_sql(table, version, catalog.segments, numbers=numbers, with_row_id=True)
        removed = f"(SELECT {ROW_ID} FROM {changes.removed} WHERE {rows_in_segments(numbers, ROW_ID)})"
        _, unchanged = session.run(
            f"SELECT {columns} FROM {rows} AS _old ANTI JOIN {removed} AS _removed ON _old.{ROW_ID} = _removed.{ROW_ID}"
        )
        return unchanged

    replaced: dict[str, tuple[Segment, ...]] = {}
    numbers = segment_numbers(version)
    for key in sorted(updated.partitions):
        unchanged = unchanged_rows(numbers[key])
        changed_rows = new.pop(key, None)
        whole = unchanged if changed_rows is None else pa.concat_tables([unchanged, changed_rows])
        replaced[key] = (batch.write(whole),) if whole.num_rows else ()
    buffered: dict[str, Segment | None] = {}
    for number in updated.buffered:
        remaining = unchanged_rows(range(number, number + 1))
        buffered[version.queried_segments()[number].file] = batch.write(remaining) if remaining.num_rows else None
    return PartitionWrites(replaced, {key: (batch.write(rows),) for key, rows in new.items()}, buffered)


def dml_change(
    kind: str,
    catalog: Catalog,
    table: TableId,
    snapshot: TableVersion,
    now: TableVersion | None,
    change: PartitionWrites,
    commit_us: int,
) -> Change:
    """Applies the new segments to the version that is current at the commit."""
    if (
        now is None
        or now.table_created_us != snapshot.table_created_us
        or now.settings.schema != snapshot.settings.schema
    ):
        raise ConcurrentUpdate(table)
    since = catalog.history(table).versions_since(snapshot.committed_us)
    only_inserts = all(version.change_kind in ("insert", STREAMED, FLUSHED) for version in since)
    after = dict(now.partitions)
    if not change.buffered.keys() <= {rows.segment.file for rows in now.buffer}:
        raise ConcurrentUpdate(table)
    for key in (*change.replaced, *change.added):
        if not only_inserts and tuple(snapshot.segments(key)) != tuple(now.segments(key)):
            raise ConcurrentUpdate(table)
    for key, segments in change.replaced.items():
        inserted = now.segments(key)[len(snapshot.segments(key)) :]
        after.pop(key, None)
        if segments or inserted:
            after[key] = Partition((*segments, *inserted), commit_us)
    for key, segments in change.added.items():
        after[key] = Partition((*now.segments(key), *segments), commit_us)
    buffer: list[BufferedRows] = []
    for rows in now.buffer:
        segment = change.buffered.get(rows.segment.file, rows.segment)
        if segment is not None:
            buffer.append(replace(rows, segment=segment))
    modified = len(change.replaced) + len(change.added)
    return Change(kind, now.settings, after, now.clone, modified_partitions=modified, buffer=tuple(buffer))


def truncate_change(table: TableId, now: TableVersion | None) -> Change:
    """TRUNCATE TABLE removes all rows and keeps the metadata.

    Raises InvalidQuery if rows are in the streaming buffer: only UPDATE, DELETE and MERGE are said to change such rows.
    """
    if now is None:
        raise ConcurrentUpdate(table)
    if now.buffer:
        raise affects_buffer("TRUNCATE TABLE", table)
    return Change("truncate", now.settings, {}, now.clone, modified_partitions=len(now.partitions), replaces_rows=True)
