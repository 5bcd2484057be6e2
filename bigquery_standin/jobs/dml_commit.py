"""Writes the changes of a DML statement as new segments, and computes the table change that the caller commits.

A statement reads one version of the table. If another statement has changed the same partitions since, `dml_change`
raises `ConcurrentUpdate`, and the caller runs the statement again on the newer rows. Rows that an INSERT added
meanwhile stay. Partitions that the statement does not change keep their segments, which are stored Parquet files. A
merge of streamed changes counts as a statement. The queue limits how many UPDATE, DELETE and MERGE statements of one
table run at a time. Sources: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency; "Quotas and limits".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from bigquery_standin.bigquery_errors import (
    InvalidQuery,
    NotImplementedConstruct,
    StandInError,
    StoppedJob,
    as_invalid_query,
)
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import Partition, Segment, TableId, TableVersion
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.quotas import FLUSHED, STREAMED
from bigquery_standin.storage.segment_store import SegmentBatch, conform
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.version_relation import (
    ROW_ID,
    relation_sql,
    rows_in_segments,
    segment_number,
    segment_numbers,
)

MAXIMUM_RETRIES = 3  # after another statement has changed the same partitions
Result = TypeVar("Result")


class ConcurrentUpdate(InvalidQuery):
    """While a statement ran, another one changed the same partitions, or dropped, replaced or altered the table."""

    def __init__(self, table: TableId) -> None:
        super().__init__(f"Could not serialize access to table {table} due to concurrent update")


def retried(run_once: Callable[[], Result], check_cancelled: Callable[[], None]) -> Result:
    """The result of the first of some tries in which no other statement changes the same partitions."""
    for _ in range(MAXIMUM_RETRIES):
        try:
            return run_once()
        except ConcurrentUpdate:
            check_cancelled()
    return run_once()


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


@dataclass(frozen=True)
class PartitionWrites:
    """The segments that a statement writes.

    `replaced`: by partition, the segments that replace those that the statement read. `added`: by partition, segments
    that only add rows.
    """

    replaced: Mapping[str, tuple[Segment, ...]]
    added: Mapping[str, tuple[Segment, ...]]


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
    batch: SegmentBatch,
) -> PartitionWrites:
    """Writes a new segment for each changed partition that still has rows.

    Raises InvalidQuery for a new row that does not fit the table's schema.
    """
    with as_invalid_query():
        changed = conform(changes.new_rows, version.settings.schema)
    new_rows = dict(split_rows(changed, version.settings))
    columns = ", ".join(f"_old.{quote_identifier(column.name)}" for column in version.settings.schema)
    replaced: dict[str, tuple[Segment, ...]] = {}
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
        replaced[key] = (batch.write(rows),) if rows.num_rows else ()
    return PartitionWrites(replaced, {key: (batch.write(rows),) for key, rows in new_rows.items()})


def dml_change(
    kind: str,
    catalog: Catalog,
    table: TableId,
    snapshot: TableVersion,
    latest: TableVersion | None,
    writes: PartitionWrites,
    commit_us: int,
) -> Change:
    """The change that puts the new segments into the table.

    `kind`: the new version's `change_kind`. `snapshot`: the version that the statement has read. `latest`: the version
    at the time of the commit. In between, INSERTs and streamed rows may have been added. Raises ConcurrentUpdate if the
    same partitions changed and the table had any other kind of change, and if the table was dropped, replaced or given
    another schema.
    """
    if (
        latest is None
        or latest.table_created_us != snapshot.table_created_us
        or latest.settings.schema != snapshot.settings.schema
    ):
        raise ConcurrentUpdate(table)
    later_versions = catalog.history(table).versions_since(snapshot.committed_us)
    only_inserts = all(version.change_kind in ("insert", STREAMED, FLUSHED) for version in later_versions)
    partitions = dict(latest.partitions)
    for key in (*writes.replaced, *writes.added):
        if not only_inserts and tuple(snapshot.segments(key)) != tuple(latest.segments(key)):
            raise ConcurrentUpdate(table)
    for key, segments in writes.replaced.items():
        inserted = latest.segments(key)[len(snapshot.segments(key)) :]
        partitions.pop(key, None)
        if segments or inserted:
            partitions[key] = Partition((*segments, *inserted), commit_us)
    for key, segments in writes.added.items():
        partitions[key] = Partition((*latest.segments(key), *segments), commit_us)
    modified = len(writes.replaced) + len(writes.added)
    return Change(kind, latest.settings, partitions, latest.clone, modified_partitions=modified)


def truncate_change(table: TableId, latest: TableVersion | None) -> Change:
    """The change that TRUNCATE TABLE makes: it removes all rows and keeps the metadata.

    Raises ConcurrentUpdate if the table was dropped meanwhile, InvalidQuery if rows are in the streaming buffer.
    """
    if latest is None:
        raise ConcurrentUpdate(table)
    if latest.buffer:
        raise InvalidQuery(
            f"TRUNCATE TABLE statement over table {table.project}.{table.dataset}.{table.table} would affect rows in "
            "the streaming buffer, which is not supported"
        )
    modified = len(latest.partitions)
    return Change("truncate", latest.settings, {}, latest.clone, modified_partitions=modified, replaces_rows=True)


MAXIMUM_RUNNING = 2
MAXIMUM_WAITING = 20
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not notify the queue, so it polls


@dataclass
class _Queue:
    """The queue of a table. `waiting`: an object for each waiting statement, the oldest first."""

    running_count: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlQueue:
    """The queues of all tables. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[TableId, _Queue] = {}

    @contextmanager
    def admit(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the `with` block as one of the table's running statements, after waiting in the table's queue if need be.

        Raises StandInError at once if the queue is full, and StoppedJob if `stop` is set while waiting.
        """
        with self._changed:
            queue = self._queues.setdefault(table, _Queue())
            self._wait(queue, table, stop)
            queue.running_count += 1
        try:
            yield
        finally:
            with self._changed:
                queue.running_count -= 1
                self._changed.notify_all()

    def _wait(self, queue: _Queue, table: TableId, stop: threading.Event) -> None:
        if queue.running_count < MAXIMUM_RUNNING and not queue.waiting:
            return
        if len(queue.waiting) >= MAXIMUM_WAITING:
            raise StandInError(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {MAXIMUM_WAITING}.",
                "resourcesExceeded",
            )
        ticket = object()
        queue.waiting.append(ticket)
        try:
            while not (queue.waiting[0] is ticket and queue.running_count < MAXIMUM_RUNNING):
                if stop.is_set():
                    raise StoppedJob()
                self._changed.wait(CANCEL_CHECK_INTERVAL_S)
        finally:
            queue.waiting.remove(ticket)
            self._changed.notify_all()
