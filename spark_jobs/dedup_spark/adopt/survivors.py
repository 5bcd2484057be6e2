"""The files of a date's survivors: those of the parent that stay as they are are copied, the others written anew.

Files are merged like the runs of a sort (a new file swallows what is not larger than itself), so that a row is written
a few times in its life and a date has few files, however many snapshots it lives through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.adopt.differences import Differences
from dedup_spark.adopt.key_reader import KeyReader
from dedup_spark.adopt.orders import DateOrder
from dedup_spark.adopt.rows import RowSource, read_rows, row_numbers
from dedup_spark.column_types import arrow_schema
from dedup_spark.marks import STATE

MOST_FILES = 8
_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 128 << 20


@dataclass(frozen=True)
class SurvivorFiles:
    """`copied` keep their names of the parent; `written` are new."""

    copied: tuple[DataFile, ...]
    written: tuple[DataFile, ...]


def write_survivors(order: DateOrder, found: Differences, reader: KeyReader, data_uri: str) -> SurvivorFiles:
    """Raises pyarrow's errors when an older delivery's file cannot be read as declared."""
    staying, sources = _sort_out(order, found)
    staying = _merge(staying, sources, order)
    state_uri = order.state.data_uri if order.state else ""
    for file in staying:
        storage.copy(storage.join(state_uri, file.path), storage.join(data_uri, file.path))
    writer = _Writer(reader.table, data_uri, order.day.isoformat())
    for table in (table for source in sources for table in read_rows(reader, source)):
        writer.add(table)
    return SurvivorFiles(tuple(staying), tuple(writer.close(order)))


def _sort_out(order: DateOrder, found: Differences) -> tuple[list[DataFile], list[RowSource]]:
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
            sources.append(RowSource(uri, file.rows, kept, removed, None))
    for part in order.older:
        for number, landed in enumerate(part.files):
            kept = row_numbers(found.kept[part.source, number])
            if len(kept):
                sources.append(RowSource(landed.uri, landed.rows, kept, row_numbers([]), None))
    return staying, sources


def _merge(staying: list[DataFile], sources: list[RowSource], order: DateOrder) -> list[DataFile]:
    """Moves small files into `sources` when a file is written anyway; returns those that stay."""
    rows = sum(source.most_rows for source in sources)
    left = sorted(staying, key=lambda file: file.rows)
    while rows and left and (left[0].rows <= rows or len(left) >= MOST_FILES):
        assert order.state
        file = left.pop(0)
        rows += file.rows
        uri = storage.join(order.state.data_uri, file.path)
        sources.append(RowSource(uri, file.rows, row_numbers([]), row_numbers([]), order.state.base_id))
    return left


@dataclass
class _Writer:
    """One Parquet file, made when the first row comes; each row group is sorted by the clustering columns."""

    table: TableContract
    data_uri: str
    day: str
    _pending: list[pa.Table] = field(default_factory=list)
    _path: str = ""
    _rows: int = 0
    _ids: list[int] = field(default_factory=list)
    _open: tuple[pa.NativeFile, pq.ParquetWriter] | None = None

    def add(self, rows: pa.Table) -> None:
        self._pending.append(rows)
        total = sum(table.num_rows for table in self._pending)
        if total >= _ROW_GROUP_ROWS or sum(table.nbytes for table in self._pending) >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def _write_row_group(self) -> None:
        group = pa.concat_tables(self._pending)
        self._pending = []
        inner = [name for name in self.table.keys if name != self.table.partition_column]
        order = [name for name in (*self.table.cluster_by, *inner)]
        if order:
            group = group.take(pc.sort_indices(group, [(name, "ascending") for name in dict.fromkeys(order)]))
        if self._open is None:
            self._path = f"{self.table.partition_column}={self.day}/survivors-{uuid4().hex[:12]}.parquet"
            stream = storage.open_output(storage.join(self.data_uri, self._path))
            schema = arrow_schema(self.table.columns)
            self._open = stream, pq.ParquetWriter(stream, schema, compression="zstd", store_schema=False)
        self._open[1].write_table(group, row_group_size=group.num_rows)
        bounds = pc.min_max(group[self.table.snapshot_id_column])
        self._ids += [bounds["min"].as_py(), bounds["max"].as_py()]
        self._rows += group.num_rows

    def close(self, order: DateOrder) -> Iterator[DataFile]:
        if self._pending:
            self._write_row_group()
        if self._open:
            stream, parquet = self._open
            parquet.close()
            size = stream.tell()
            stream.close()
            yield DataFile(self._path, order.day, self._rows, size, min(self._ids), max(self._ids))


def rows_of(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)
