"""Keeps selected rows of one input, grouped by ranges of key codes that are compared one after the other.

With one range the rows stay in memory. With several they go to a temporary file. So the input's files are read only
once, however many rows differ, and only the rows of one range are in memory at a time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa

from dedup_spark import storage
from dedup_spark.arrays import Indices, U64Array
from dedup_spark.comparison.selected_rows import SelectedRows, concat_rows

# With several ranges, rows are moved to the temporary file when more than this many are in memory.
_ROWS_IN_MEMORY = 1 << 18
_HALF_WORD_BITS = np.uint64(32)


@dataclass(frozen=True)
class StoredRows:
    """Rows of one range: an Arrow stream of `size` bytes from byte `start` on.

    `uri`: the object that has the stream; None if the temporary file has it.
    """

    start: int
    size: int
    uri: str | None = None


class RangedRows:
    """Rows, grouped by `range_count` ranges of the codes of their keys, of equal length."""

    def __init__(self, range_count: int) -> None:
        self.range_count = range_count
        self._in_memory: list[SelectedRows] = []
        self._file: IO[bytes] | None = None
        self._stored: list[list[StoredRows]] = [[] for _ in range(range_count)]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the temporary file out: another process can only read the rows that are in objects."""
        assert not self._in_memory
        return {**self.__dict__, "_file": None}

    def save(self, uri: str) -> list[list[StoredRows]]:
        """Write all rows as one object, range after range. Return for each range where its rows are in the object."""
        saved: list[list[StoredRows]] = []
        with storage.open_output(uri) as stream:
            for number in range(len(self._stored)):
                table, start = self.of_range(number).to_table(), stream.tell()
                with pa.ipc.new_stream(stream, table.schema) as out:
                    out.write_table(table)
                saved.append([StoredRows(start, stream.tell() - start, uri)])
        return saved

    def add_saved(self, saved: list[list[StoredRows]]) -> None:
        """Add the rows that another process saved for the same ranges."""
        for number, stored in enumerate(saved):
            self._stored[number] += stored

    def add(self, rows: SelectedRows) -> None:
        self._in_memory.append(rows)
        if self.range_count > 1 and sum(map(len, self._in_memory)) > _ROWS_IN_MEMORY:
            self._spill()

    def of_range(self, number: int) -> SelectedRows:
        """The rows of the range with this number. Call it only after all rows were added."""
        if self.range_count > 1 and self._in_memory:
            self._spill()
        return concat_rows([*self._in_memory, *(self._read(stored) for stored in self._stored[number])])

    def _spill(self) -> None:
        """Move the rows in memory to the temporary file, grouped by range."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        rows = concat_rows(self._in_memory)
        numbers = range_of(rows.codes, self.range_count)
        order = np.argsort(numbers.astype(np.uint16), kind="stable")  # numpy sorts numbers of 16 bits by radix
        edges = np.searchsorted(numbers[order], np.arange(len(self._stored) + 1))
        for number, stored in enumerate(self._stored):
            table = rows.take(order[edges[number] : edges[number + 1]]).to_table()
            start = self._file.seek(0, 2)
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
            stored.append(StoredRows(start, self._file.tell() - start))
        self._in_memory = []

    def _read(self, stored: StoredRows) -> SelectedRows:
        with pa.ipc.open_stream(pa.BufferReader(self._content(stored))) as stream:
            return SelectedRows.from_table(stream.read_all())

    def _content(self, stored: StoredRows) -> bytes:
        if stored.uri:
            with storage.open_input(stored.uri) as file:
                return bytes(file.read_at(stored.size, stored.start))
        assert self._file
        self._file.seek(stored.start)
        return self._file.read(stored.size)


def range_of(codes: U64Array, range_count: int) -> Indices:
    """For each code the number of its range, of `range_count` ranges of equal length."""
    return (((codes >> _HALF_WORD_BITS) * np.uint64(range_count)) >> _HALF_WORD_BITS).view(np.intp)
