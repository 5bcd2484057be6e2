"""Rows of one date on their way into Parquet files: sorted by the clustering columns, in files of a good size.

As many rows as memory allows are sorted at a time, so that a small date is one sorted file; a file of a large date is a
few sorted runs, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema

_SORTED_ROWS = 2 << 20
_SORTED_BYTES = 64 << 20
_ROW_GROUP_ROWS = 1 << 20


@dataclass
class SortedFiles:
    """`name` begins the files' names; `file_bytes` is the size that a file should have, None for one file in all."""

    table: TableContract
    data_uri: str
    day: date
    name: str
    file_bytes: int | None
    _pending: list[pa.Table] = field(default_factory=list)
    _pending_rows: int = 0
    _pending_bytes: int = 0
    _open: _OpenFile | None = None
    _files: list[DataFile] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """`rows` have the table's columns as the job writes them."""
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= _SORTED_ROWS or self._pending_bytes >= _SORTED_BYTES:
            self._write_run()

    def close(self) -> tuple[DataFile, ...]:
        """Writes what is left. No rows, no files."""
        if self._pending_rows:
            self._write_run()
        self._finish_file()
        return tuple(self._files)

    def _write_run(self) -> None:
        run = pa.concat_tables(self._pending)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        inner = [name for name in self.table.keys if name != self.table.partition_column]
        order = list(dict.fromkeys([*self.table.cluster_by, *inner]))
        if order:
            run = run.take(pc.sort_indices(run, [(name, "ascending") for name in order]))
        if self._open is None:
            path = f"{self.table.partition_column}={self.day.isoformat()}/{self.name}-{uuid4().hex[:12]}.parquet"
            self._open = _OpenFile(path, storage.join(self.data_uri, path), self.table)
        self._open.write(run)
        if self.file_bytes is not None and self._open.size >= self.file_bytes:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._open:
            self._files.append(self._open.close(self.day))
            self._open = None


class _OpenFile:
    def __init__(self, path: str, uri: str, table: TableContract) -> None:
        self._path = path
        self._snapshot_id = table.snapshot_id_column
        self._rows = 0
        self._ids: list[int] = []
        self._stream = storage.open_output(uri)
        self._parquet = pq.ParquetWriter(
            self._stream, arrow_schema(table.columns), compression="zstd", store_schema=False
        )

    @property
    def size(self) -> int:
        return int(self._stream.tell())

    def write(self, run: pa.Table) -> None:
        self._parquet.write_table(run, row_group_size=_ROW_GROUP_ROWS)
        bounds = pc.min_max(run[self._snapshot_id])
        self._ids += [bounds["min"].as_py(), bounds["max"].as_py()]
        self._rows += run.num_rows

    def close(self, day: date) -> DataFile:
        self._parquet.close()
        size = self.size
        self._stream.close()
        return DataFile(self._path, day, self._rows, size, min(self._ids), max(self._ids))
