"""Keeps selected rows of one input, grouped by ranges of key codes that are compared one after the other.

With one range the rows stay in memory. With several they go to a temporary file. So the input's files are read only
once, however many rows differ, and only the rows of one range are in memory at a time.
"""

from __future__ import annotations

import tempfile
from typing import IO

import numpy as np
import pyarrow as pa

from dedup_spark.arrays import Indices, U64Array
from dedup_spark.comparison.selected_rows import SelectedRows, concat_rows

# With several ranges, rows are moved to the temporary file when more than this many are in memory.
_ROWS_IN_MEMORY = 1 << 18
_HALF_WORD_BITS = np.uint64(32)


class RangedRows:
    """Rows, grouped by `range_count` ranges of the codes of their keys, of equal length.

    `_spilled`: for each range, start and size in bytes of the Arrow streams with its rows in the temporary file.
    """

    def __init__(self, range_count: int) -> None:
        self.range_count = range_count
        self._in_memory: list[SelectedRows] = []
        self._file: IO[bytes] | None = None
        self._spilled: list[list[tuple[int, int]]] = [[] for _ in range(range_count)]

    def add(self, rows: SelectedRows) -> None:
        self._in_memory.append(rows)
        if self.range_count > 1 and sum(map(len, self._in_memory)) > _ROWS_IN_MEMORY:
            self._spill()

    def of_range(self, number: int) -> SelectedRows:
        """The rows of the range with this number. Call it only after all rows were added."""
        if self.range_count > 1 and self._in_memory:
            self._spill()
        return concat_rows([*self._in_memory, *(self._read(*stream) for stream in self._spilled[number])])

    def _spill(self) -> None:
        """Move the rows in memory to the temporary file, grouped by range."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        rows = concat_rows(self._in_memory)
        numbers = range_of(rows.codes, self.range_count)
        order = np.argsort(numbers.astype(np.uint16), kind="stable")  # numpy sorts numbers of 16 bits by radix
        edges = np.searchsorted(numbers[order], np.arange(self.range_count + 1))
        for number, spilled in enumerate(self._spilled):
            table = rows.take(order[edges[number] : edges[number + 1]]).to_table()
            start = self._file.seek(0, 2)
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
            spilled.append((start, self._file.tell() - start))
        self._in_memory = []

    def _read(self, start: int, size: int) -> SelectedRows:
        assert self._file
        self._file.seek(start)
        with pa.ipc.open_stream(pa.BufferReader(self._file.read(size))) as stream:
            return SelectedRows.from_table(stream.read_all())


def range_of(codes: U64Array, range_count: int) -> Indices:
    """For each code the number of its range, of `range_count` ranges of equal length."""
    return (((codes >> _HALF_WORD_BITS) * np.uint64(range_count)) >> _HALF_WORD_BITS).view(np.intp)
