"""Writes the rows of one date into Parquet files of a target size, sorted by the clustering columns and the keys.

Rows are sorted in memory in runs of about 2 million rows or 64 MB. A small date is one run. A file of a large date
contains several runs, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark.comparison.cluster_overlap import Range, overlapping_share
from dedup_spark.output.data_file import DataFileWriter, TableBuffer

_MAX_RUN_ROWS = 2 << 20
_MAX_RUN_BYTES = 64 << 20


@dataclass
class SortedFilesWriter:
    """Writes sorted files, whose names begin with `name_prefix`. `file_bytes`: their target size; None for one file."""

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
