"""Copies the parent's files of dates that get no new files, or rewrites them after columns were added or changed.

So the data folder of each generation has all its files, and folders of older generations can be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.output.data_file import DataFileWriter, row_groups
from dedup_spark.parent import Parent
from dedup_spark.sketch import stored


@dataclass(frozen=True)
class _Copier:
    """Copies one object, given its path, which is the same below both folders."""

    source_folder_uri: str
    target_folder_uri: str

    def __call__(self, path: str) -> None:
        storage.copy(storage.join(self.source_folder_uri, path), storage.join(self.target_folder_uri, path))


def copy_forward(
    parent: Parent, dates: frozenset[date], sketch_dates: frozenset[date], data_uri: str, fan_out: FanOut
) -> None:
    """Copy the files of `dates`, and those stored sketches of `sketch_dates` that the parent has.

    The files keep their paths below the data folder, so the `files_digest` of a date does not change.
    """
    paths = [file.path for file in parent.files if file.date in dates]
    if sketch_dates:
        stored_names = storage.list_objects(storage.join(parent.data_uri, stored.FOLDER))
        sketch_paths = [stored.path_of(day) for day in sorted(sketch_dates)]
        paths += [path for path in sketch_paths if path.removeprefix(f"{stored.FOLDER}/") in stored_names]
    fan_out.map(_Copier(parent.data_uri, data_uri), paths, total_bytes=0, description="copy files of the parent")


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
    """Rewrite the parent's `files` below `data_uri`. Return, by the record of each file, the record of the new file.

    A load job takes the schema of one file for all its files, so files with former columns cannot be copied.
    """
    completer = _ColumnCompleter(table, parent.data_uri, data_uri)
    written = fan_out.map(completer, files, sum(file.size for file in files), "add columns to copied files")
    return dict(zip(files, written, strict=True))
