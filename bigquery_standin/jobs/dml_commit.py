"""Writes the changes of a DML statement as new segments, and makes the table change that the caller commits.

Partitions that the statement does not change keep their segments, which are stored Parquet files. A merge of streamed
changes counts as a statement. Source: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from bigquery_standin.bigquery_errors import NotImplementedConstruct, StoppedJob
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import Partition, Segment, TableId, TableVersion
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.segment_store import WriteRows, conform
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.version_relation import (
    ROW_ID,
    relation_sql,
    rows_in_segments,
    segment_number,
    segment_numbers,
)

MAXIMUM_RUNNING = 2  # UPDATE, DELETE and MERGE statements of one table; further ones are PENDING
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not end the waiting, so it polls
PartitionWrites = Mapping[str, tuple[Segment, ...]]  # by partition that changes: all its segments afterwards


class DmlQueue:
    """Lets some statements of each table run at a time. Threads may share it."""

    def __init__(self) -> None:
        self._free: dict[TableId, threading.Semaphore] = {}

    @contextmanager
    def admit(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the `with` block as one of the table's running statements. Raises StoppedJob if `stop` is set before."""
        free = self._free.setdefault(table, threading.Semaphore(MAXIMUM_RUNNING))
        while not free.acquire(timeout=CANCEL_CHECK_INTERVAL_S):
            if stop.is_set():
                raise StoppedJob()
        try:
            yield
        finally:
            free.release()


@dataclass(frozen=True)
class RowChanges:
    """What a DML statement, or a merge of streamed changes (change_merge.py), changes in a table.

    `removed`: the name of a temporary table with the ids of the deleted rows and of the old versions of updated rows.
    `new_rows`: the inserted rows and the new versions of updated rows. `counts`: the API's `dmlStats`, by kind of
    change; empty for a merge of streamed changes.
    """

    removed: str
    new_rows: pa.Table
    counts: dict[str, int]


def affected_partitions(table: TableId, version: TableVersion, changes: RowChanges, session: DuckDbSession) -> set[str]:
    """The partitions in which a statement changes or deletes rows. They are rewritten; BigQuery bills their full size.

    Raises NotImplementedConstruct if it changes rows in the streaming buffer.
    """
    _, numbers_of_changed = session.run(f"SELECT DISTINCT {segment_number(ROW_ID)} AS number FROM {changes.removed}")
    changed = set(numbers_of_changed.column(0).to_pylist())
    if any(number >= len(version.segments()) for number in changed):
        raise NotImplementedConstruct(f"DML that changes rows in the streaming buffer of table {table}")
    return {key for key, numbers in segment_numbers(version).items() if not changed.isdisjoint(numbers)}


def write_partitions(
    table: TableId,
    version: TableVersion,
    changes: RowChanges,
    affected: set[str],
    session: DuckDbSession,
    catalog: Catalog,
    write: WriteRows,
) -> PartitionWrites:
    """Writes the new rows, and the rows that stay in each affected partition, by `write`.

    Raises Invalid for a new row that does not fit the table's schema.
    """
    changed = conform(changes.new_rows, version.settings.schema)
    new_rows = dict(split_rows(changed, version.settings))
    columns = ", ".join(f"_old.{quote_identifier(column.name)}" for column in version.settings.schema)
    writes: dict[str, tuple[Segment, ...]] = {}
    numbers = segment_numbers(version)
    for key in sorted(affected):
        relation = relation_sql(table, version, catalog.segments, numbers=numbers[key], with_row_id=True)
        removed_ids = f"(SELECT {ROW_ID} FROM {changes.removed} WHERE {rows_in_segments(numbers[key], ROW_ID)})"
        _, unchanged = session.run(
            f"SELECT {columns} FROM {relation} AS _old "
            f"ANTI JOIN {removed_ids} AS _removed ON _old.{ROW_ID} = _removed.{ROW_ID}"
        )
        changed_rows = new_rows.pop(key, None)
        rows = unchanged if changed_rows is None else pa.concat_tables([unchanged, changed_rows])
        writes[key] = (write(rows),) if rows.num_rows else ()
    added = {key: (*version.segments(key), write(rows)) for key, rows in new_rows.items()}
    return writes | added


def dml_change(version: TableVersion, writes: PartitionWrites, commit_us: int) -> Change:
    """The change that puts the new segments into the table, whose version the statement has read."""
    partitions = dict(version.partitions)
    for key, segments in writes.items():
        partitions.pop(key, None)
        if segments:
            partitions[key] = Partition(segments, commit_us)
    return Change(version.settings, partitions, commit_us, version.clone)
