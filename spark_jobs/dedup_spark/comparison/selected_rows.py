"""Keeps selected rows of one input of a comparison, with their columns and hashes.

Rows are grouped by ranges of key codes that are compared one after the other. With one range the rows stay in memory.
With several they go to a temporary file. So the input's files are read only once, however many rows differ, and only
the rows of one range are in memory at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.arrays import I64Array, Indices, U64Array

Columns = tuple[pa.ChunkedArray, ...]
NO_FILE = -1
# With several ranges, rows are moved to the temporary file when more than this many are in memory.
_ROWS_IN_MEMORY = 1 << 18
_HALF_WORD_BITS = np.uint64(32)


# Returns the indices of the selected rows of a batch, given the codes of their keys (`RowEncoder.key_codes`).
RowSelector = Callable[[U64Array], Indices]


def every_row(codes: U64Array) -> Indices:
    """Select all rows."""
    return np.arange(len(codes))


@dataclass(frozen=True)
class SelectedRows:
    """Rows of one input of a comparison.

    `file_numbers`, `row_numbers`: the number of each row's file, and of the row in this file, both from 0. A row that
    was decoded from a sketch has the file number NO_FILE. `value_hashes`: equal for rows with equal keys and values.
    `value_columns` is None if the columns are too large to keep in memory. `codes`: see `RowEncoder.key_codes`.
    """

    key_columns: Columns
    file_numbers: npt.NDArray[np.int32]
    row_numbers: I64Array
    update_ids: I64Array
    value_hashes: U64Array
    value_columns: Columns | None
    codes: U64Array

    def __len__(self) -> int:
        return len(self.row_numbers)

    def take(self, indices: Indices) -> SelectedRows:
        """The rows at these indices, in the order of `indices`."""
        return SelectedRows(
            key_columns=take_rows(self.key_columns, indices),
            file_numbers=self.file_numbers[indices],
            row_numbers=self.row_numbers[indices],
            update_ids=self.update_ids[indices],
            codes=self.codes[indices],
            value_hashes=self.value_hashes[indices],
            value_columns=None if self.value_columns is None else take_rows(self.value_columns, indices),
        )

    def to_table(self) -> pa.Table:
        """The rows as a table, from which `from_table` makes them again."""
        columns = {f"{_KEY}{number}": column for number, column in enumerate(self.key_columns)}
        columns |= {f"{_VALUE}{number}": column for number, column in enumerate(self.value_columns or ())}
        columns |= {} if self.value_columns is None else {_HAS_VALUES: pa.nulls(len(self))}
        columns |= {name: pa.chunked_array([getattr(self, name)]) for name in _NUMBERS}
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: pa.Table) -> SelectedRows:
        table = table.combine_chunks()
        return cls(
            key_columns=_columns(table, _KEY),
            value_columns=_columns(table, _VALUE) if _HAS_VALUES in table.column_names else None,
            **{name: table[name].to_numpy() for name in _NUMBERS},
        )


# Names in `to_table`: prefixes of the numbered key and value columns, a column of rows with value columns (a table may
# have none, which is not None), and the columns of numbers.
_KEY, _VALUE, _HAS_VALUES = "key ", "value ", "has values"
_NUMBERS = ("file_numbers", "row_numbers", "update_ids", "value_hashes", "codes")


def _columns(table: pa.Table, prefix: str) -> Columns:
    return tuple(table[name] for name in table.column_names if name.startswith(prefix))


def concat_rows(parts: Sequence[SelectedRows]) -> SelectedRows:
    """The rows of `parts`, at least one part. If a part with rows lacks value columns, so does the result."""
    tables = [part.to_table() for part in parts if len(part)] or [parts[0].to_table()]
    if len(tables) == 1:
        return SelectedRows.from_table(tables[0])
    common = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
    return SelectedRows.from_table(pa.concat_tables([table.select(common) for table in tables]))


def without_rows(rows: SelectedRows, excluded: Sequence[SelectedRows]) -> SelectedRows:
    """The rows without `excluded`, which are rows of the same files."""
    is_retained = np.ones(len(rows), dtype=bool)
    for some in excluded:
        for file in np.unique(some.file_numbers):
            of_file = np.flatnonzero(rows.file_numbers == file)
            numbers = some.row_numbers[some.file_numbers == file]
            is_retained[of_file[np.isin(rows.row_numbers[of_file], numbers)]] = False
    return rows if is_retained.all() else rows.take(np.flatnonzero(is_retained))


def take_rows(columns: Sequence[pa.Array | pa.ChunkedArray], indices: Indices) -> tuple[pa.Array, ...]:
    """The rows at these indices, column by column."""
    positions = pa.array(indices)
    return tuple(column.take(positions) for column in columns)


class RangedRows:
    """Rows, grouped by `range_count` ranges of the codes of their keys, of equal length.

    `_spilled`: for each range, start and size in bytes of the Arrow streams with its rows in the temporary file.
    """

    def __init__(self, range_count: int) -> None:
        self.range_count = range_count
        self._in_memory: list[SelectedRows] = []
        self._row_count = 0  # of the rows in memory
        self._file: IO[bytes] | None = None
        self._spilled: list[list[tuple[int, int]]] = [[] for _ in range(range_count)]

    def add(self, rows: SelectedRows) -> None:
        self._in_memory.append(rows)
        self._row_count += len(rows)
        if self.range_count > 1 and self._row_count > _ROWS_IN_MEMORY:
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
        order, edges = order_by_range(rows.codes, self.range_count)
        for number, spilled in enumerate(self._spilled):
            table = rows.take(order[edges[number] : edges[number + 1]]).to_table()
            start = self._file.seek(0, 2)
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
            spilled.append((start, self._file.tell() - start))
        self._in_memory, self._row_count = [], 0

    def _read(self, start: int, size: int) -> SelectedRows:
        assert self._file
        self._file.seek(start)
        with pa.ipc.open_stream(pa.BufferReader(self._file.read(size))) as stream:
            return SelectedRows.from_table(stream.read_all())


def order_by_range(codes: U64Array, range_count: int) -> tuple[Indices, Indices]:
    """Divide codes into `range_count` ranges of equal length. Return an order of the codes by their ranges.

    Also return where each range begins in this order, and where the last one ends.
    """
    numbers = ((codes >> _HALF_WORD_BITS) * np.uint64(range_count)) >> _HALF_WORD_BITS
    order = np.argsort(numbers.astype(np.uint16), kind="stable")  # numpy sorts numbers of 16 bits by radix
    return order, np.searchsorted(numbers[order], np.arange(range_count + 1, dtype=np.uint64))
