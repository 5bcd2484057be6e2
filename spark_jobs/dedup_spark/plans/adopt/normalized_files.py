"""Rewrites the landed files of an adopted date that cannot be copied as they are. Rows keep their order.

These are files with surplus rows, which are left out, and files with other types, modes or order of columns than the
job writes: a load job takes the schema of one file for all its files, so all must have the same.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.manifest import DataFile
from dedup_spark.arrays import I64Array
from dedup_spark.comparison.key_reader import FilesRead, KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.difference.compared_date import ComparedDate
from dedup_spark.plans.difference.diff_result import DiffResult


@dataclass(frozen=True)
class NormalizedFiles:
    """What was written in place of landed files. `uris`: those of the landed files. `files`: the new files.

    `cast_count`: how many landed files had another schema. A landed file that has only surplus rows has no new file.
    """

    uris: frozenset[str]
    cast_count: int
    files: tuple[DataFile, ...]


def write_normalized(
    task: ComparedDate, diff: DiffResult, reader: KeyReader, data_uri: str, parts: PartTasks | None
) -> NormalizedFiles:
    """Rewrite the newest delivery's files with surplus rows or another schema; `diff` says which rows are surplus.

    `parts`: rewrites the files in Spark tasks; None to do so in this process.
    """
    source = PARENT_SOURCE + 1 + len(task.older)
    with_surplus = (
        (landed, diff.surplus_in(source, number)) for number, landed in enumerate(task.newest.files) if landed.rows
    )
    to_write = [(landed, surplus) for landed, surplus in with_surplus if len(surplus) or not landed.has_written_schema]
    rewrite = _FileRewriter(task.day, task.newest.delivery.snapshot_id, reader, data_uri)
    if parts:
        found = parts.map(_RewriterInTask(rewrite), to_write, "write files anew")
        for _, read in found:
            reader.add_files_read(read)
        written = [file for file, _ in found]
    else:
        written = [rewrite(landed_and_surplus) for landed_and_surplus in to_write]
    return NormalizedFiles(
        uris=frozenset(landed.uri for landed, _ in to_write),
        cast_count=sum(not landed.has_written_schema for landed, _ in to_write),
        files=tuple(file for file in written if file),
    )


@dataclass(frozen=True)
class _FileRewriter:
    """Rewrites one landed file, given with its surplus row numbers. Returns None if all its rows are surplus."""

    day: date
    snapshot_id: int
    reader: KeyReader
    data_uri: str

    def __call__(self, landed_and_surplus: tuple[DeliveredFile, I64Array]) -> DataFile | None:
        landed, surplus = landed_and_surplus
        source = RowSource.all_rows(landed.uri, landed.rows, self.snapshot_id, excluded=surplus)
        return write_file(self.reader.table, self.data_uri, self.day, "normalized", read_rows(self.reader, source))


@dataclass(frozen=True)
class _RewriterInTask:
    """Rewrites one file in a Spark task. Returns also what the task's reader found out, for the driver's reader."""

    rewrite: _FileRewriter

    def __call__(self, landed_and_surplus: tuple[DeliveredFile, I64Array]) -> tuple[DataFile | None, FilesRead]:
        reader = copy(self.rewrite.reader)
        written = replace(self.rewrite, reader=reader)(landed_and_surplus)
        return written, reader.files_read()
