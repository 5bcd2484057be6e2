"""Writes the changes of a generation as rows of the table `FEED_changes`: each with the old and the new row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pyarrow as pa

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, DateEntry
from dedup_clone.contract.table import (
    CHANGE_TYPE,
    GENERATION,
    NEW_ROW,
    OLD_ROW,
    PUBLISH_DATE,
    SNAPSHOT_ID,
    ChangeType,
    TableContract,
    UpdateIdMode,
    changes_table_contract,
    nullable,
)
from dedup_spark import storage
from dedup_spark.arrays import Indices
from dedup_spark.changes.row_comparison import ROWS_PER_RANGE, TYPES, RowChanges, RowComparison
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.row_reader import RowSource, read_rows, whole_rows
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.data_files import row_groups, write_files
from dedup_spark.execution.fan_out import run_tasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import Seed, read_seed
from dedup_spark.generation import NewGeneration
from dedup_spark.parent import Parent, ParentDate, files_by_date
from dedup_spark.plans.difference.comparison_inputs import wide_encoder

# Whole new rows of about this many bytes are in memory at a time, and as many bytes of old rows. A row in memory is
# taken to be eight times as large as in its file.
_BYTES_AT_A_TIME = 128 << 20
_BYTES_PER_STORED_BYTE = 8


def write_changes(
    attempt: Attempt,
    generation: NewGeneration,
    parent: Parent,
    applied: Sequence[Delivery],
    run_id: str,
    session: SessionSource,
) -> tuple[DataFile, ...]:
    """Write the rows by which the generation differs from its parent, below this run's folder in the changes folder.

    Return the records of the written files; their paths begin with the run's folder. `run_id`: the id of this run of
    the Spark job, which names its folder.
    """
    files, tasks = files_by_date(generation.files), []
    for entry in generation.dates:
        old = parent.on_date(entry.date)
        new = ParentDate(attempt.data_uri, tuple(files[entry.date]), entry) if entry.rows else None
        is_copied = entry.date in generation.copied
        if not (is_copied or _has_no_change(attempt, entry, old.entry if old else None)) and (new or old):
            tasks.append(ChangesTask(entry.date, new, old))
    tasks += [ChangesTask(day, None, parent.on_date(day)) for day in generation.lost_dates(parent)]
    if not tasks:
        return ()
    included = attempt.included_deliveries(tuple(applied))
    snapshot_id = included[-1].snapshot_id if included else max(entry.max_update_id for entry in generation.dates)
    seed, uri = read_seed(attempt.seed_uri), storage.join(attempt.changes_uri, f"{run_id}/")
    table = replace(attempt.table, columns=tuple(nullable(column) for column in attempt.table.columns))
    work = WriteChanges(attempt, table, seed, uri, snapshot_id, tuple(delivery.snapshot_id for delivery in applied))
    written = run_tasks(session, work, tasks, [task.bytes for task in tasks], f"write changes of {len(tasks)} dates")
    return tuple(replace(file, path=f"{run_id}/{file.path}") for date_files in written for file in date_files)


def _has_no_change(attempt: Attempt, entry: DateEntry, parent_entry: DateEntry | None) -> bool:
    """Whether the plan's counts and the ranges of update ids prove that the date has no change.

    They prove nothing in mode last_changed, in which a row may differ by its update id alone, and nothing on a date
    whose newest snapshot lacks keys, before the publish or after it.
    """
    if parent_entry is None or attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return False
    is_whole = all(e.newest_snapshot in (None, e.min_update_id) for e in (entry, parent_entry))
    return entry.changed == 0 and not entry.new_keys and not entry.deleted and is_whole


@dataclass(frozen=True)
class ChangesTask:
    """One date whose changes are written.

    `new`, `old`: its rows in the new generation and in the parent; None if that generation lacks the date.
    """

    day: date
    new: ParentDate | None
    old: ParentDate | None

    @property
    def bytes(self) -> int:
        """The size of its files in both generations."""
        return sum(rows.bytes for rows in (self.new, self.old) if rows)

    @property
    def rows_at_a_time(self) -> int:
        """How many whole new rows, and as many old ones, may be in memory at a time, by their average stored size."""
        stored_row_bytes = self.bytes / max(sum(rows.entry.rows for rows in (self.new, self.old) if rows), 1)
        return max(int(_BYTES_AT_A_TIME / (stored_row_bytes * _BYTES_PER_STORED_BYTE + 1)), 1)


@dataclass(frozen=True)
class WriteChanges:
    """Writes the changes of one date into files below `folder_uri`, and returns the records of the files.

    `snapshot_id`: the snapshot of the publish. `applied`: the ids of the deliveries that the job has applied.
    `publish_date`: the partition of the changes. `table`: with all columns nullable.
    """

    attempt: Attempt
    table: TableContract
    seed: Seed
    folder_uri: str
    snapshot_id: int
    applied: tuple[int, ...]

    @property
    def publish_date(self) -> date:
        return self.attempt.taken_at.date()

    def __call__(self, task: ChangesTask) -> tuple[DataFile, ...]:
        contract, rows = changes_table_contract(self.table, retention_days=0), self._rows(task)
        return write_files(contract, self.folder_uri, self.publish_date, f"{task.day}", rows, self.attempt.file_bytes)

    def _rows(self, task: ChangesTask) -> Iterator[pa.Table]:
        reader, old, new = KeyReader(self.table), task.old, task.new
        if old is None or new is None:
            rows, kind = (new, ChangeType.NEW) if new else (old, ChangeType.DELETED)
            assert rows
            sources = (RowSource.all_rows(rows.uri(file), file.rows) for file in rows.files)
            for table in row_groups(table for source in sources for table in read_rows(reader, source)):
                types = np.full(table.num_rows, TYPES.index(kind), np.intp)
                yield self._change_rows(table if new else None, table if old else None, types)
            return
        encoder = wide_encoder(reader, self.seed)
        comparison = RowComparison(reader, encoder, self.attempt.update_id_mode, self.applied)
        new_source, old_source = comparison.source(new), comparison.source(old)
        for changes in comparison.changes(new, old, ROWS_PER_RANGE):
            for batch in _in_batches(changes, task.rows_at_a_time):
                new_rows = None if batch.new is None else _whole_rows(new_source, task.day, batch.new)
                old_rows = None if batch.old is None else _whole_rows(old_source, task.day, batch.old)
                yield self._change_rows(new_rows, old_rows, batch.types)

    def _change_rows(self, new: pa.Table | None, old: pa.Table | None, types: Indices) -> pa.Table:
        """Rows of the changes table. `new`, `old` and `types` have at each position the rows and type of one change.

        `old`: None if all keys are new. `new`: None if all rows were deleted. `types`: positions in TYPES.
        """
        schema, rows = arrow_schema(changes_table_contract(self.table, retention_days=0).columns), len(types)
        keys = old if new is None else new
        assert keys is not None
        columns = {
            PUBLISH_DATE: pa.repeat(pa.scalar(self.publish_date, pa.date32()), rows),
            GENERATION: pa.repeat(pa.scalar(self.attempt.generation, pa.int64()), rows),
            SNAPSHOT_ID: pa.repeat(pa.scalar(self.snapshot_id, pa.int64()), rows),
            CHANGE_TYPE: pa.array([str(kind) for kind in TYPES]).take(pa.array(types)),
            **{name: keys[name] for name in self.table.keys},
            OLD_ROW: pa.nulls(rows, schema.field(OLD_ROW).type) if old is None else _struct(old),
            NEW_ROW: pa.nulls(rows, schema.field(NEW_ROW).type) if new is None else _struct(new),
        }
        return pa.table([columns[name] for name in schema.names], schema=schema)


def _struct(rows: pa.Table) -> pa.StructArray:
    rows = rows.combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(rows.schema))


def _in_batches(changes: RowChanges, limit: int) -> Iterator[RowChanges]:
    """Yield the changes in batches of at most `limit` changes, in the order of the rows in their files."""
    rows = changes.old if changes.new is None else changes.new
    assert rows
    order = np.lexsort((rows.row_numbers, rows.file_numbers))
    for start in range(0, len(order), limit):
        batch = order[start : start + limit]
        new, old = (None if side is None else side.take(batch) for side in (changes.new, changes.old))
        yield RowChanges(new, old, changes.types[batch])


def _whole_rows(source: KeySource, day: date, rows: SelectedRows) -> pa.Table:
    """All columns of the rows, in the order of `rows`. Values that `rows` lacks are read from the files."""
    complete = source.with_values(rows)
    assert complete is not None
    assert complete.value_columns is not None
    return whole_rows(source.reader.table, day, complete.key_columns, complete.value_columns, complete.update_ids)
