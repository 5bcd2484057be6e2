"""Which rows a pass over a key source selects, and what it returns of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.arrays import EMPTY_U64, I64Array, Indices, U64Array

Columns = tuple[pa.ChunkedArray, ...]


class RowSelection(NamedTuple):
    """Indices of rows of one batch: rows to return, and rows of which only the value hashes are needed."""

    selected: Indices
    hashed: Indices


# Selects rows of a batch by the first hashes of their keys.
RowSelector = Callable[[U64Array], RowSelection]


@dataclass(frozen=True)
class SelectedRows:
    """Rows of a key source, with the numbers of their file and of the row in that file.

    `value_hashes` is empty where values are not compared. `value_columns` is None where they were not decoded or are
    too large to hold in memory. `first_hashes` are the first hashes of the keys.
    """

    key_columns: Columns
    file_numbers: npt.NDArray[np.int32]
    row_numbers: I64Array
    update_ids: I64Array
    value_hashes: U64Array
    value_columns: Columns | None
    first_hashes: U64Array = field(default_factory=lambda: EMPTY_U64)

    def __len__(self) -> int:
        return len(self.row_numbers)

    def take(self, indices: Indices) -> SelectedRows:
        """The rows at these indices, in their order."""
        return SelectedRows(
            key_columns=take_rows(self.key_columns, indices),
            file_numbers=self.file_numbers[indices],
            row_numbers=self.row_numbers[indices],
            update_ids=self.update_ids[indices],
            first_hashes=self.first_hashes[indices],
            value_hashes=self.value_hashes[indices] if len(self.value_hashes) else self.value_hashes,
            value_columns=None if self.value_columns is None else take_rows(self.value_columns, indices),
        )


def take_rows(columns: Sequence[pa.Array | pa.ChunkedArray], indices: Indices) -> tuple[pa.Array, ...]:
    """The rows at these indices, column by column."""
    wanted = pa.array(indices)
    return tuple(column.take(wanted) for column in columns)


def concat_columns(batches: Sequence[tuple[pa.Array, ...] | None]) -> Columns | None:
    """The batches' columns, one after the other. None where a batch is None, or where there is no batch."""
    present = [batch for batch in batches if batch is not None]
    if not present or len(present) < len(batches):
        return None
    return combine_chunks(pa.chunked_array(list(column)) for column in zip(*present, strict=True))


def combine_chunks(columns: Iterable[pa.ChunkedArray]) -> Columns:
    """The columns in one chunk each: `take` on thousands of chunks, as a large date has, searches all of them."""
    chunked = list(columns)
    return tuple(pa.table(chunked, names=[str(number) for number in range(len(chunked))]).combine_chunks().columns)
