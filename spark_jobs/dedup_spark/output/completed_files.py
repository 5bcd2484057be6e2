"""Rewrites the parent's files, instead of copying them, after columns were added or changed.

A load job takes the schema of one file for all its files, so files with the former columns cannot be copied.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.output.data_file import DataFileWriter, row_groups
from dedup_spark.parent import Parent


@dataclass(frozen=True)
class _ColumnCompleter:
    """Rewrites one file of the parent with all columns of the table."""

    table: TableContract
    parent_data_uri: str
    data_uri: str

    def __call__(self, file: DataFile) -> DataFile:
        source = RowSource.all_rows(storage.join(self.parent_data_uri, file.path), file.rows, file.max_update_id)
        writer = DataFileWriter(self.table, self.data_uri, file.date, "completed")
        for rows in row_groups(read_rows(KeyReader(self.table), source)):
            writer.write(rows)
        return writer.close()


def write_completed(
    parent: Parent, files: tuple[DataFile, ...], table: TableContract, data_uri: str, fan_out: FanOut
) -> dict[DataFile, DataFile]:
    """Rewrite the parent's `files` below `data_uri`. Return, by the record of each file, the record of the new file."""
    completer = _ColumnCompleter(table, parent.data_uri, data_uri)
    written = fan_out.map(completer, files, sum(file.size for file in files), "add columns to copied files")
    return dict(zip(files, written, strict=True))
