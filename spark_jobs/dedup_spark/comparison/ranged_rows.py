"""Selected rows of one input, sorted into ranges of buckets that are compared one after the other.

With one range the rows stay in memory. With several they are written to a temporary file, so that files are read once
however many rows differ, and memory holds the rows of one range at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import IO

import numpy as np
import pyarrow as pa

from dedup_spark.arrays import Indices, U64Array
from dedup_spark.comparison.bucket_ranges import BucketRange
from dedup_spark.comparison.selected_rows import SelectedRows, concat_rows
from dedup_spark.fingerprints.buckets import bucket_of

_ROWS_IN_MEMORY = 1 << 18


@dataclass(frozen=True)
class _Stored:
    """Rows of one range: an Arrow stream in the file, from byte `start` on."""

    start: int
    size: int


class RangedRows:
    """Rows of `ranges` over `2**bits` buckets. Adding rows is thread-safe."""

    def __init__(self, ranges: Sequence[BucketRange], bits: int) -> None:
        self._stops: Indices = np.array([part.stop for part in ranges[:-1]], dtype=np.intp)
        self._bits = bits
        self._in_memory: list[SelectedRows] = []
        self._file: IO[bytes] | None = None
        self._stored: list[list[_Stored]] = [[] for _ in ranges]
        self._lock = Lock()

    def add(self, rows: SelectedRows) -> None:
        with self._lock:
            self._in_memory.append(rows)
            if len(self._stops) and sum(map(len, self._in_memory)) > _ROWS_IN_MEMORY:
                self._spill()

    def of_range(self, number: int) -> SelectedRows:
        """The rows of the range of this number, once all rows are added."""
        if not len(self._stops):
            return concat_rows(self._in_memory)
        if self._in_memory:
            self._spill()
        return concat_rows([self._read(stored) for stored in self._stored[number]])

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        rows = concat_rows(self._in_memory)
        numbers = self._range_of(rows.first_hashes)
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(len(self._stored) + 1))
        for number, stored in enumerate(self._stored):
            part = rows.take(order[edges[number] : edges[number + 1]])
            start = self._file.seek(0, 2)
            table = part.to_table()
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
            stored.append(_Stored(start, self._file.tell() - start))
        self._in_memory = []

    def _range_of(self, first_hashes: U64Array) -> Indices:
        return np.searchsorted(self._stops, bucket_of(first_hashes, self._bits), side="right")

    def _read(self, stored: _Stored) -> SelectedRows:
        assert self._file
        self._file.seek(stored.start)
        with pa.ipc.open_stream(pa.BufferReader(self._file.read(stored.size))) as stream:
            return SelectedRows.from_table(stream.read_all())
