"""Keeps selected rows of one input of a comparison, with their columns and hashes.

Rows are grouped by ranges of key codes that are compared one after the other. With one range the rows stay in memory.
With several they go to a temporary file. So the input's files are read only once, however many rows differ, and only
the rows of one range are in memory at a time.
"""

from __future__ import annotations

import os
import pickle
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


def concat_rows(parts: Sequence[SelectedRows]) -> SelectedRows:
    """The rows of `parts`, at least one part. If a part with rows lacks value columns, so does the result."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    values = [part.value_columns for part in parts if part.value_columns is not None]
    return SelectedRows(
        key_columns=_concat_columns([part.key_columns for part in parts]),
        file_numbers=np.concatenate([part.file_numbers for part in parts]),
        row_numbers=np.concatenate([part.row_numbers for part in parts]),
        update_ids=np.concatenate([part.update_ids for part in parts]),
        value_hashes=np.concatenate([part.value_hashes for part in parts]),
        value_columns=_concat_columns(values) if len(values) == len(parts) else None,
        codes=np.concatenate([part.codes for part in parts]),
    )


def _concat_columns(parts: Sequence[Columns]) -> Columns:
    """The columns, in few chunks: `take` would search all of them."""
    tables = [pa.table(list(columns), [str(number) for number in range(len(columns))]) for columns in parts]
    return tuple(pa.concat_tables(tables).combine_chunks().columns)


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

    `_spilled`: for each range, where the temporary file has some of its rows, which are pickled.
    """

    def __init__(self, range_count: int) -> None:
        self.range_count = range_count
        self._in_memory: list[SelectedRows] = []
        self._row_count = 0  # of the rows in memory
        self._file: IO[bytes] | None = None
        self._spilled: list[list[int]] = [[] for _ in range(range_count)]

    def add(self, rows: SelectedRows) -> None:
        self._in_memory.append(rows)
        self._row_count += len(rows)
        if self.range_count > 1 and self._row_count > _ROWS_IN_MEMORY:
            self._spill()

    def of_range(self, number: int) -> SelectedRows:
        """The rows of the range with this number. Call it only after all rows were added."""
        if self.range_count > 1 and self._in_memory:
            self._spill()
        return concat_rows([*self._in_memory, *map(self._read, self._spilled[number])])

    def _spill(self) -> None:
        """Move the rows in memory to the temporary file, grouped by range."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        rows = concat_rows(self._in_memory)
        order, edges = order_by_range(rows.codes, self.range_count)
        for number, spilled in enumerate(self._spilled):
            spilled.append(self._file.seek(0, os.SEEK_END))
            pickle.dump(rows.take(order[edges[number] : edges[number + 1]]), self._file, pickle.HIGHEST_PROTOCOL)
        self._in_memory, self._row_count = [], 0

    def _read(self, start: int) -> SelectedRows:
        assert self._file
        self._file.seek(start)
        rows: SelectedRows = pickle.load(self._file)
        return rows


def order_by_range(codes: U64Array, range_count: int) -> tuple[Indices, Indices]:
    """Divide codes into `range_count` ranges of equal length. Return an order of the codes by their ranges.

    Also return where each range begins in this order, and where the last one ends.
    """
    numbers = ((codes >> _HALF_WORD_BITS) * np.uint64(range_count)) >> _HALF_WORD_BITS
    order = np.argsort(numbers.astype(np.uint16), kind="stable")  # numpy sorts numbers of 16 bits by radix
    return order, np.searchsorted(numbers[order], np.arange(range_count + 1, dtype=np.uint64))
