"""Writes the files of a date's survivors: keeps unchanged files of the parent, and writes at most one new file.

If a new file is written, survivor files with at most as many rows as the new file are not kept: their rows are
written into it, too. So each row is rewritten only a few times, and a date has few files after any number of snapshots.
"""

from __future__ import annotations

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import Absent, TableContract
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_sorted
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.date_task import DateTask
from dedup_spark.plans.difference.diff_result import DiffResult

# A date has at most this many files of survivors.
_MAX_SURVIVOR_FILES = 8


def write_survivors(task: DateTask, diff: DiffResult, reader: KeyReader, data_uri: str) -> tuple[DataFile, ...]:
    """Return the survivor files: those of the parent that are kept, and a new one.

    Raises pyarrow's errors if a file that has survivors cannot be read.
    """
    kept, sources = _split_files(task, diff, reader.table)
    kept = _merge_small_files(kept, sources, task)
    rows = (table for source in sources for table in read_rows(reader, source))
    written, _ = write_sorted(reader.table, data_uri, task.day, "survivors", rows)
    return (*kept, *written)


def _split_files(task: DateTask, diff: DiffResult, table: TableContract) -> tuple[list[DataFile], list[RowSource]]:
    """Return the parent's survivor files that can be kept, and where to read the rows of the new file.

    There are none if rows are deleted whose keys the newest delivery lacks.
    """
    kept: list[DataFile] = []
    sources: list[RowSource] = []
    parent = None if table.absent_keys is Absent.DELETE else task.parent
    for number, file in enumerate(parent.files if parent else ()):
        assert parent
        added, removed = diff.added_in(PARENT_SOURCE, number), diff.removed_in(number)
        uri, base_id = parent.uri(file), parent.entry.max_update_id
        if file.max_update_id < base_id and not len(removed):
            kept.append(file)
        elif file.min_update_id < base_id:
            sources.append(RowSource(uri, file.rows, added, removed, ids_below=base_id))
        elif len(added):
            sources.append(RowSource.selected_rows(uri, added))
    return kept, sources + added_sources(task, diff)


def survivor_sources(task: DateTask, diff: DiffResult, table: TableContract) -> list[RowSource]:
    """Return where to read all survivors of a date, and no other rows."""
    kept, sources = _split_files(task, diff, table)
    return [*sources, *(_whole_file(file, task) for file in kept)]


def added_sources(task: DateTask, diff: DiffResult) -> list[RowSource]:
    """Return where to read the rows that the date gets from deliveries, and those that are in memory already."""
    sources = [RowSource.in_memory(diff.added_rows)] if diff.added_rows else []
    for source, delivered in enumerate(task.deliveries, start=PARENT_SOURCE + 1):
        for number, landed in enumerate(delivered.files):
            added = diff.added_in(source, number)
            if len(added):
                sources.append(RowSource.selected_rows(landed.uri, added))
    return sources


def _merge_small_files(kept: list[DataFile], sources: list[RowSource], task: DateTask) -> list[DataFile]:
    """Add files to `sources` instead of keeping them. Return the remaining files, which are kept.

    If a new file is written, the smallest files are added to it: each that has at most as many rows as the new file has
    by then, and others until fewer than _MAX_SURVIVOR_FILES remain. If there are more files than this limit, all are
    added, even if there would be no new file otherwise.
    """
    rows = sum(source.max_rows for source in sources)
    small_first = sorted(kept, key=lambda file: file.rows)
    # Other plans may have left many small files of old rows.
    are_too_many = len(small_first) > _MAX_SURVIVOR_FILES
    while small_first and (
        are_too_many or (rows and (small_first[0].rows <= rows or len(small_first) >= _MAX_SURVIVOR_FILES))
    ):
        file = small_first.pop(0)
        rows += file.rows
        sources.append(_whole_file(file, task))
    return small_first


def _whole_file(file: DataFile, task: DateTask) -> RowSource:
    """All rows of a file that has only survivors."""
    assert task.parent
    return RowSource.all_rows(task.parent.uri(file), file.rows)
