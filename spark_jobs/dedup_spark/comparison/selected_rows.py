"""Defines a selection of rows by the codes of their keys, and the selected rows with their columns and hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.arrays import I64Array, Indices, U64Array

Columns = tuple[pa.ChunkedArray, ...]
NO_FILE = -1


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
        columns |= {name: pa.chunked_array([getattr(self, name)]) for name in _NUMBERS}
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: pa.Table) -> SelectedRows:
        table = table.combine_chunks()
        return cls(
            key_columns=_columns(table, _KEY),
            value_columns=_columns(table, _VALUE) or None,
            **{name: table[name].to_numpy() for name in _NUMBERS},
        )


# Names in `to_table`: prefixes of the numbered key and value columns, and the columns of numbers.
_KEY, _VALUE = "key ", "value "
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


def combine_chunks(columns: Iterable[pa.ChunkedArray]) -> Columns:
    """The columns, each in one chunk. A large date has thousands of chunks, and `take` would search all of them."""
    chunked = list(columns)
    return tuple(pa.table(chunked, names=[str(number) for number in range(len(chunked))]).combine_chunks().columns)
