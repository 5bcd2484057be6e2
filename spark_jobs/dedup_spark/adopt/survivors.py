"""The files of a date's survivors: those of the parent that stay as they are are copied, the others written anew.

Files are merged like the runs of a sort (a new file swallows what is not larger than itself), so that a row is written
a few times in its life and a date has few files, however many snapshots it lives through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.adopt.found import Differences, KeptRows
from dedup_spark.adopt.key_reader import KeyReader
from dedup_spark.adopt.orders import DateOrder
from dedup_spark.adopt.rows import RowSource, read_rows, row_numbers
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.marks import STATE
from dedup_spark.sorted_files import SortedFiles

MOST_FILES = 8


@dataclass(frozen=True)
class SurvivorFiles:
    """`copied` keep their names of the parent; `written` are new."""

    copied: tuple[DataFile, ...]
    written: tuple[DataFile, ...]


def write_survivors(order: DateOrder, found: Differences, reader: KeyReader, data_uri: str) -> SurvivorFiles:
    """Raises pyarrow's errors when an older delivery's file cannot be read as declared."""
    staying, sources = _sort_out(order, found, reader.table)
    staying = _merge(staying, sources, order)
    state_uri = order.state.data_uri if order.state else ""
    for file in staying:
        storage.copy(storage.join(state_uri, file.path), storage.join(data_uri, file.path))
    written = SortedFiles(reader.table, data_uri, order.day, "survivors", file_bytes=None)
    for table in (table for source in sources for table in read_rows(reader, source)):
        written.add(table)
    return SurvivorFiles(tuple(staying), written.close())


def _sort_out(order: DateOrder, found: Differences, table: TableContract) -> tuple[list[DataFile], list[RowSource]]:
    """The parent's survivor files that lose no row, and what is to be read for the new file."""
    staying: list[DataFile] = []
    sources: list[RowSource] = []
    state = order.state
    for number, file in enumerate(state.files if state else ()):
        assert state
        kept, removed = row_numbers(found.kept[STATE, number]), row_numbers(found.removed[STATE, number])
        uri = storage.join(state.data_uri, file.path)
        if file.max_update_id < state.base_id and not len(removed):
            staying.append(file)
        elif file.min_update_id < state.base_id:
            sources.append(RowSource(uri, file.rows, kept, removed, state.base_id))
        elif len(kept):
            decoded = _decoded(table, order, found.decoded[STATE, number], len(kept))
            sources.append(RowSource(uri, file.rows, kept, removed, None, decoded))
    for part in order.older:
        for number, landed in enumerate(part.files):
            kept = row_numbers(found.kept[part.source, number])
            if len(kept):
                sources.append(RowSource(landed.uri, landed.rows, kept, row_numbers([]), None))
    return staying, sources


def _decoded(table: TableContract, order: DateOrder, parts: Sequence[KeptRows], expected: int) -> tuple[pa.Table, ...]:
    """The rows as declared; nothing unless all that are expected are at hand."""
    if sum(len(part.ids) for part in parts) != expected:
        return ()
    return tuple(_as_table(table, order, part) for part in parts)


def _as_table(table: TableContract, order: DateOrder, rows: KeptRows) -> pa.Table:
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        table.partition_column: pa.repeat(pa.scalar(order.day, pa.date32()), len(rows.ids)),
        table.snapshot_id_column: pa.array(rows.ids, pa.int64()),
    }
    columns.update(zip((column.name for column in key_columns(table)), rows.values, strict=True))
    columns.update(zip((column.name for column in table.value_columns), rows.others, strict=True))
    return pa.table([columns[column.name] for column in table.columns], schema=arrow_schema(table.columns))


def _merge(staying: list[DataFile], sources: list[RowSource], order: DateOrder) -> list[DataFile]:
    """Moves small files into `sources` when a file is written anyway, and all when they are too many.

    Returns those that stay.
    """
    rows = sum(source.most_rows for source in sources)
    left = sorted(staying, key=lambda file: file.rows)
    # Other plans may have left many small files of old rows.
    all_of_them = len(left) > MOST_FILES
    while left and (all_of_them or (rows and (left[0].rows <= rows or len(left) >= MOST_FILES))):
        assert order.state
        file = left.pop(0)
        rows += file.rows
        uri = storage.join(order.state.data_uri, file.path)
        sources.append(RowSource(uri, file.rows, row_numbers([]), row_numbers([]), order.state.base_id))
    return left


def rows_of(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)
