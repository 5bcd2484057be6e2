"""Rewrites the landed files of an adopted date that cannot be copied as they are. Rows keep their order.

These are files with surplus rows, which are left out, and files with other types, modes or order of columns than the
job writes: a load job takes the schema of one file for all its files, so all must have the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.manifest import DataFile
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file
from dedup_spark.parent import PARENT_SOURCE
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


def write_normalized(task: ComparedDate, diff: DiffResult, reader: KeyReader, data_uri: str) -> NormalizedFiles:
    """Rewrite the newest delivery's files with surplus rows or another schema; `diff` says which rows are surplus."""
    source, snapshot_id = PARENT_SOURCE + 1 + len(task.older), task.newest.delivery.snapshot_id
    uris, cast_count, written = set(), 0, []
    for number, landed in enumerate(task.newest.files):
        surplus = diff.surplus_in(source, number)
        if landed.rows and (len(surplus) or not landed.has_written_schema):
            rows = RowSource.all_rows(landed.uri, landed.rows, snapshot_id, excluded=surplus)
            written.append(write_file(reader.table, data_uri, task.day, "normalized", read_rows(reader, rows)))
            uris.add(landed.uri)
            cast_count += not landed.has_written_schema
    return NormalizedFiles(frozenset(uris), cast_count, tuple(file for file in written if file))
