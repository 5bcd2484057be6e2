"""Defines a selection of rows by the hashes of their keys, and the selected rows with their columns and hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.arrays import EMPTY_U64, I64Array, Indices, U64Array

Columns = tuple[pa.ChunkedArray, ...]


class RowSelection(NamedTuple):
    """Indices of rows in one batch.

    `selected`: rows to compare by key. `hash_only`: rows to compare only by value hash.
    """

    selected: Indices
    hash_only: Indices


# Selects rows of a batch by the first hashes of their keys.
RowSelector = Callable[[U64Array], RowSelection]


@dataclass(frozen=True)
class SelectedRows:
    """Rows of one input of a comparison.

    `file_numbers`, `row_numbers`: the number of each row's file, and of the row in this file, both from 0.
    `value_hashes` is empty if values are not compared. `value_columns` is None if the columns were not decoded or are
    too large to keep in memory. `first_hashes`: the first of each key's two 64-bit hashes, which chooses its bucket.
    """

    key_columns: Columns
    file_numbers: npt.NDArray[np.int32]
    row_numbers: I64Array
    update_ids: I64Array
    value_hashes: U64Array
    value_columns: Columns | None
    first_hashes: U64Array

    def __len__(self) -> int:
        return len(self.row_numbers)

    def take(self, indices: Indices) -> SelectedRows:
        """The rows at these indices, in the order of `indices`."""
        return SelectedRows(
            key_columns=take_rows(self.key_columns, indices),
            file_numbers=self.file_numbers[indices],
            row_numbers=self.row_numbers[indices],
            update_ids=self.update_ids[indices],
            first_hashes=self.first_hashes[indices],
            value_hashes=self.value_hashes[indices] if len(self.value_hashes) else self.value_hashes,
            value_columns=None if self.value_columns is None else take_rows(self.value_columns, indices),
        )

    def to_table(self) -> pa.Table:
        """The rows as a table, from which `from_table` makes them again."""
        columns = {f"{_KEY}{number}": column for number, column in enumerate(self.key_columns)}
        columns |= {f"{_VALUE}{number}": column for number, column in enumerate(self.value_columns or ())}
        columns |= {name: pa.chunked_array([getattr(self, name)]) for name in _NUMBERS}
        if len(self.value_hashes):
            columns["value_hashes"] = pa.chunked_array([self.value_hashes])
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: pa.Table) -> SelectedRows:
        table = table.combine_chunks()
        hashes = table["value_hashes"].to_numpy() if "value_hashes" in table.column_names else EMPTY_U64
        return cls(
            key_columns=_columns(table, _KEY),
            value_columns=_columns(table, _VALUE) or None,
            value_hashes=hashes,
            **{name: table[name].to_numpy() for name in _NUMBERS},
        )


# Names in `to_table`: prefixes of the numbered key and value columns, and the columns of numbers.
_KEY, _VALUE = "key ", "value "
_NUMBERS = ("file_numbers", "row_numbers", "update_ids", "first_hashes")


def _columns(table: pa.Table, prefix: str) -> Columns:
    return tuple(table[name] for name in table.column_names if name.startswith(prefix))


def concat_rows(parts: Sequence[SelectedRows]) -> SelectedRows:
    """The rows of `parts`, at least one part. If a part with rows lacks value columns, so does the result."""
    tables = [part.to_table() for part in parts if len(part)] or [parts[0].to_table()]
    if len(tables) == 1:
        return SelectedRows.from_table(tables[0])
    common = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
    return SelectedRows.from_table(pa.concat_tables([table.select(common) for table in tables]))


def take_rows(columns: Sequence[pa.Array | pa.ChunkedArray], indices: Indices) -> tuple[pa.Array, ...]:
    """The rows at these indices, column by column."""
    positions = pa.array(indices)
    return tuple(column.take(positions) for column in columns)


def concat_columns(batches: Sequence[tuple[pa.Array, ...] | None]) -> Columns | None:
    """The batches' columns, one after the other. None if any batch is None, or if there is no batch."""
    present = [batch for batch in batches if batch is not None]
    if not present or len(present) < len(batches):
        return None
    return combine_chunks(pa.chunked_array(list(column)) for column in zip(*present, strict=True))


def combine_chunks(columns: Iterable[pa.ChunkedArray]) -> Columns:
    """The columns, each in one chunk. A large date has thousands of chunks, and `take` would search all of them."""
    chunked = list(columns)
    return tuple(pa.table(chunked, names=[str(number) for number in range(len(chunked))]).combine_chunks().columns)
