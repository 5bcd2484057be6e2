"""Writes the Parquet data files of dates, and says how large they should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.attempt import MAX_TABLE_FILES
from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.cluster_overlap import Range, overlapping_share
from dedup_spark.landing.file_validation import LandedFile
from dedup_spark.parent import Parent

_MAX_ROW_GROUP_ROWS = 1 << 20
# `row_groups` yields the rows collected so far once they have reached one of these limits.
_MAX_PENDING_ROWS = 1 << 20
_MAX_PENDING_BYTES = 64 << 20
_MAX_RUN_ROWS = 2 << 20
_MAX_RUN_BYTES = 64 << 20


class DataFileWriter:
    """Writes one file. Its name is `name_prefix` and a unique suffix, so a repeated Spark task writes another file."""

    def __init__(self, table: TableContract, data_uri: str, day: date, name_prefix: str) -> None:
        self._path = f"{table.partition_column}={day.isoformat()}/{name_prefix}-{uuid4().hex[:12]}.parquet"
        self._day = day
        self._id_column = table.snapshot_id_column
        self._rows = 0
        self._id_bounds: list[int] = []
        self._stream = storage.open_output(storage.join(data_uri, self._path))
        self._parquet = pq.ParquetWriter(
            self._stream, arrow_schema(table.columns), compression="zstd", store_schema=False
        )

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        """Write `rows`, which have the table's Arrow schema, as row groups of their own."""
        self._parquet.write_table(rows, row_group_size=_MAX_ROW_GROUP_ROWS)
        bounds = pc.min_max(rows[self._id_column])
        self._id_bounds += [bounds["min"].as_py(), bounds["max"].as_py()]
        self._rows += rows.num_rows

    def close(self) -> DataFile:
        """Finish the file and return its record. At least one row must have been written."""
        self._parquet.close()
        size = self.size
        self._stream.close()
        return DataFile(self._path, self._day, self._rows, size, min(self._id_bounds), max(self._id_bounds))


def write_file(
    table: TableContract, data_uri: str, day: date, name_prefix: str, rows: Iterable[pa.Table]
) -> DataFile | None:
    """Write the rows into one file, in their order. Return None, and write no file, if there are no rows."""
    writer = None
    for group in row_groups(rows):
        writer = writer or DataFileWriter(table, data_uri, day, name_prefix)
        writer.write(group)
    return writer.close() if writer else None


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `tables`, regrouped into tables large enough for a row group; the last one may be smaller."""
    pending = TableBuffer(_MAX_PENDING_ROWS, _MAX_PENDING_BYTES)
    for table in tables:
        pending.add(table)
        if pending.is_full:
            yield pending.take()
    if pending:
        yield pending.take()


@dataclass
class TableBuffer:
    """Collects Arrow tables. The buffer is full once they have `max_rows` or `max_bytes` together."""

    max_rows: int
    max_bytes: int
    _tables: list[pa.Table] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        # `nbytes` would crash the process: it reads the offsets of arrays, which Spark's empty arrays lack.
        self._bytes += table.get_total_buffer_size()

    @property
    def is_full(self) -> bool:
        return self._rows >= self.max_rows or self._bytes >= self.max_bytes

    def __bool__(self) -> bool:
        return self._rows > 0

    def take(self) -> pa.Table:
        """Return the rows as one table, and empty the buffer."""
        table = pa.concat_tables(self._tables)
        self._tables, self._rows, self._bytes = [], 0, 0
        return table


@dataclass
class SortedFilesWriter:
    """Writes sorted files, whose names begin with `name_prefix`. `file_bytes`: their target size; None for one file.

    Rows are sorted in memory, by the clustering columns and the keys, in runs of _MAX_RUN_ROWS or _MAX_RUN_BYTES. A
    small date is one run. A file of a large date contains several runs, one after another.
    """

    table: TableContract
    data_uri: str
    day: date
    name_prefix: str
    file_bytes: int | None
    _buffer: TableBuffer = field(default_factory=lambda: TableBuffer(_MAX_RUN_ROWS, _MAX_RUN_BYTES))
    _writer: DataFileWriter | None = None
    _files: list[DataFile] = field(default_factory=list)
    _run_ranges: list[Range] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Add `rows`, which have the table's Arrow schema."""
        self._buffer.add(rows)
        if self._buffer.is_full:
            self._write_run()

    def close(self) -> tuple[DataFile, ...]:
        """Write the remaining rows, and return the files: none if no row was added."""
        if self._buffer:
            self._write_run()
        self._finish_file()
        return tuple(self._files)

    @property
    def cluster_overlap(self) -> float | None:
        """The share of sorted runs (0 to 1) that overlap in the first clustering column; None without clustering."""
        return overlapping_share([tuple(self._run_ranges)]) if self.table.cluster_by else None

    def _write_run(self) -> None:
        run = self._buffer.take()
        keys = [name for name in self.table.keys if name != self.table.partition_column]
        sort_columns = list(dict.fromkeys([*self.table.cluster_by, *keys]))
        if sort_columns:
            run = run.take(pc.sort_indices(run, [(name, "ascending") for name in sort_columns]))
        if self.table.cluster_by:
            bounds = pc.min_max(run[self.table.cluster_by[0]])
            self._run_ranges += [(bounds["min"].as_py(), bounds["max"].as_py())] if bounds["min"].is_valid else []
        if self._writer is None:
            self._writer = DataFileWriter(self.table, self.data_uri, self.day, self.name_prefix)
        self._writer.write(run)
        if self.file_bytes is not None and self._writer.size >= self.file_bytes:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._writer:
            self._files.append(self._writer.close())
            self._writer = None


# Half the allowed files are planned for: copied-forward dates keep the files of earlier publishes, which may be smaller
# than the target size.
_MAX_PLANNED_FILES = MAX_TABLE_FILES // 2
# A date with at most this many files is never fragmented.
_FEW_FILES = 8
# A date is fragmented if it has more than this many times the files that it needs.
_FRAGMENTED_FACTOR = 4


def file_bytes_within_limit(requested_file_bytes: int, table_bytes: int) -> int:
    """Return the requested file size, or a larger one if the table would have too many files of that size."""
    return max(requested_file_bytes, -(-table_bytes // _MAX_PLANNED_FILES))


def target_file_bytes(requested_file_bytes: int, landed: Iterable[LandedFile], parent: Parent) -> int:
    """Return the target size, in bytes, of written files. `landed`: the files of all deliveries.

    Deliveries and parent mostly have the same keys, so the table will be about as large as the largest of them.
    """
    delivery_bytes: Counter[int] = Counter()
    for file in landed:
        delivery_bytes[file.snapshot_id] += file.size
    table_bytes = max(sum(file.size for file in parent.files), *delivery_bytes.values(), 0)
    return file_bytes_within_limit(requested_file_bytes, table_bytes)


def are_fragmented(files: Iterable[DataFile], file_bytes: int) -> bool:
    """Whether a date has more than eight files, and more than four times as many as it needs at `file_bytes` each."""
    sizes = [file.size for file in files]
    needed_file_count = -(-sum(sizes) // file_bytes)
    return len(sizes) > max(_FEW_FILES, _FRAGMENTED_FACTOR * needed_file_count)
