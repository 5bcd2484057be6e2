"""Rows of one date on their way into Parquet files: sorted by the clustering columns, in files of a good size.

As many rows as memory allows are sorted at a time, so that a small date is one sorted file; a file of a large date is a
few sorted runs, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark.data_file import OpenDataFile, PendingRows

_SORTED_ROWS = 2 << 20
_SORTED_BYTES = 64 << 20


@dataclass
class SortedFiles:
    """`name` begins the files' names; `file_bytes` is the size that a file should have, None for one file in all."""

    table: TableContract
    data_uri: str
    day: date
    name: str
    file_bytes: int | None
    _pending: PendingRows = field(default_factory=lambda: PendingRows(_SORTED_ROWS, _SORTED_BYTES))
    _open: OpenDataFile | None = None
    _files: list[DataFile] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """`rows` have the table's columns as the job writes them."""
        self._pending.add(rows)
        if self._pending.is_full:
            self._write_run()

    def close(self) -> tuple[DataFile, ...]:
        """Writes what is left. No rows, no files."""
        if self._pending:
            self._write_run()
        self._finish_file()
        return tuple(self._files)

    def _write_run(self) -> None:
        run = self._pending.take()
        inner = [name for name in self.table.keys if name != self.table.partition_column]
        order = list(dict.fromkeys([*self.table.cluster_by, *inner]))
        if order:
            run = run.take(pc.sort_indices(run, [(name, "ascending") for name in order]))
        if self._open is None:
            self._open = OpenDataFile(self.table, self.data_uri, self.day, self.name)
        self._open.write(run)
        if self.file_bytes is not None and self._open.size >= self.file_bytes:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._open:
            self._files.append(self._open.close())
            self._open = None
