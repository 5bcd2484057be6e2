"""Writes the changes of a date as rows of the table `FEED_changes`: each with the old and the new row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Self

import numpy as np
import pyarrow as pa

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DataFile
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
from dedup_spark.arrays import Indices
from dedup_spark.changes.row_comparison import ROWS_PER_RANGE, TYPES, RowChanges, RowComparison, RowsOfDate
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.output.data_file import DataFileWriter, row_groups
from dedup_spark.sketch.row_words import RowEncoder

# Whole new rows of about this many bytes are in memory at a time, and as many bytes of old rows. A row in memory is
# taken to be eight times as large as in its file.
_BYTES_AT_A_TIME = 128 << 20
_BYTES_PER_STORED_BYTE = 8


@dataclass(frozen=True)
class ChangesTask:
    """One date whose changes are written. `bytes`: the size of its files in the new generation and in the parent.

    `new`, `old`: its rows in the new generation and in the parent; `old` is None if the parent lacks the date.
    """

    day: date
    bytes: int
    new: RowsOfDate
    old: RowsOfDate | None

    @property
    def rows_at_a_time(self) -> int:
        """How many whole new rows, and as many old ones, may be in memory at a time, by their average stored size."""
        stored_row_bytes = self.bytes / max(self.new.rows + (self.old.rows if self.old else 0), 1)
        return max(int(_BYTES_AT_A_TIME / (stored_row_bytes * _BYTES_PER_STORED_BYTE + 1)), 1)


@dataclass(frozen=True)
class WriteChanges:
    """Writes the changes of one date into files below `folder_uri`, and returns the records of the files.

    `generation`, `snapshot_id`: what the rows of the changes table say of the publish. `publish_date`: their partition.
    `file_bytes`: the target size of a file. `rows_per_range`: about how many rows are compared at a time.
    """

    table: TableContract
    seed: Seed
    mode: UpdateIdMode
    folder_uri: str
    generation: int
    snapshot_id: int
    publish_date: date
    file_bytes: int
    rows_per_range: int

    @classmethod
    def from_attempt(cls, attempt: Attempt, folder_uri: str, publish_date: date, seed: Seed, snapshot_id: int) -> Self:
        table = replace(attempt.table, columns=tuple(nullable(column) for column in attempt.table.columns))
        return cls(
            table,
            seed,
            attempt.update_id_mode,
            folder_uri,
            attempt.generation,
            snapshot_id,
            publish_date,
            attempt.file_bytes,
            ROWS_PER_RANGE,
        )

    def __call__(self, task: ChangesTask) -> tuple[DataFile, ...]:
        changes_contract = changes_table_contract(self.table, retention_days=0)
        files, writer = [], None
        for rows in self._rows(task):
            writer = writer or DataFileWriter(changes_contract, self.folder_uri, self.publish_date, f"{task.day}")
            writer.write(rows)
            if writer.size >= self.file_bytes:
                files.append(writer.close())
                writer = None
        return (*files, writer.close()) if writer else tuple(files)

    def _rows(self, task: ChangesTask) -> Iterator[pa.Table]:
        reader, old, new = KeyReader(self.table), task.old, task.new
        if old is None:
            sources = (RowSource.all_rows(uri, new.rows, _HIGHEST_ID) for uri in new.uris)
            for table in row_groups(table for source in sources for table in read_rows(reader, source)):
                yield self._change_rows(table, None, np.full(table.num_rows, TYPES.index(ChangeType.NEW), np.intp))
            return
        encoder = RowEncoder(key_columns(self.table), self.table.value_columns, self.seed)
        comparison = RowComparison(reader, encoder, self.mode)
        new_source, old_source = comparison.source(new), comparison.source(old)
        for changes in comparison.changes(new, old, self.rows_per_range):
            for batch in _in_batches(changes, task.rows_at_a_time):
                old_rows = None if batch.old is None else _whole_rows(old_source, batch.old)
                yield self._change_rows(_whole_rows(new_source, batch.new), old_rows, batch.types)

    def _change_rows(self, new: pa.Table, old: pa.Table | None, types: Indices) -> pa.Table:
        """Rows of the changes table. `new`, `old` and `types` have at each position the rows and type of one change.

        `old`: None if all keys are new. `types`: positions in TYPES.
        """
        schema, rows = arrow_schema(changes_table_contract(self.table, retention_days=0).columns), new.num_rows
        columns = {
            PUBLISH_DATE: pa.repeat(pa.scalar(self.publish_date, pa.date32()), rows),
            GENERATION: pa.repeat(pa.scalar(self.generation, pa.int64()), rows),
            SNAPSHOT_ID: pa.repeat(pa.scalar(self.snapshot_id, pa.int64()), rows),
            CHANGE_TYPE: pa.array([str(kind) for kind in TYPES]).take(pa.array(types)),
            **{name: new[name] for name in self.table.keys},
            OLD_ROW: pa.nulls(rows, schema.field(OLD_ROW).type) if old is None else _struct(old),
            NEW_ROW: _struct(new),
        }
        return pa.table([columns[name] for name in schema.names], schema=schema)


_HIGHEST_ID = (1 << 63) - 2  # no row has a higher update id; `all_rows` adds 1, and the sum must fit into 64 bits


def _struct(rows: pa.Table) -> pa.StructArray:
    rows = rows.combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(rows.schema))


def _in_batches(changes: RowChanges, limit: int) -> Iterator[RowChanges]:
    """Yield the changes in batches of at most `limit` changes, in the order of the new rows in their files."""
    order = np.lexsort((changes.new.row_numbers, changes.new.file_numbers))
    for start in range(0, len(order), limit):
        batch = order[start : start + limit]
        old = None if changes.old is None else changes.old.take(batch)
        yield RowChanges(changes.new.take(batch), old, changes.types[batch])


def _whole_rows(source: KeySource, rows: SelectedRows) -> pa.Table:
    """All columns of the rows, in the order of `rows`."""
    order = np.lexsort((rows.row_numbers, rows.file_numbers))
    tables: list[pa.Table] = []
    for file in np.unique(rows.file_numbers):
        of_file = order[rows.file_numbers[order] == file]
        tables += source.whole_rows(int(file), rows.row_numbers[of_file])
    position = np.empty(len(order), np.intp)
    position[order] = np.arange(len(order))
    return pa.concat_tables(tables).take(pa.array(position))
