"""Finds the rows of one delivery that have equal keys, and decides which row of each key is retained.

The row with the highest update_id is retained. Of several such rows it is the one with the greatest values, compared
column by column in schema order (`value_order.py`). The other rows are surplus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import NO_INDICES, I64Array, Indices, U64Array
from dedup_spark.comparison.key_comparison import KeySet, indices_of, repeated_in
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.selected_rows import Columns, RowSelection, RowSelector, SelectedRows, take_rows
from dedup_spark.value_order import comparable

# The most rows of repeated keys whose values are compared at a time, and the most bytes that are read for this. Python
# compares row by row, and takes some microseconds for each.
_MAX_ROWS = 1 << 18
_MAX_BYTES = 64 << 20
# The most surplus rows of a date, of about 100 bytes each, that are kept in memory until its files are written.
_MAX_SURPLUS_ROWS = 1 << 20
# Only this many rows are converted to Python values at a time, because Python values take much memory.
_ROWS_AT_A_TIME = 1 << 12


class TooManyDuplicates(Exception):
    """A date has so many rows of repeated keys that plan window has to write it."""

    def __init__(self) -> None:
        super().__init__("deliveries have too many rows of repeated keys to compare their values in a task's memory")


@dataclass(frozen=True)
class ResolvedDuplicates:
    """Rows divided into `retained` and `surplus`.

    `retained`: one row of each key that was resolved, and all rows of the other keys. `keys`: the packed keys of
    `retained`. `surplus`: the other rows of the resolved keys, without value columns.
    """

    retained: SelectedRows
    keys: U64Array
    surplus: SelectedRows


def require_few_surplus_rows(count: int) -> None:
    """Raise TooManyDuplicates if `count` surplus rows of a date are too many to keep in memory."""
    if count > _MAX_SURPLUS_ROWS:
        raise TooManyDuplicates


def find_duplicates(
    source: KeySource, columns: tuple[Column, ...], counts: npt.NDArray[Any], bits: int, limit: int
) -> Iterator[ResolvedDuplicates]:
    """Resolve the duplicate keys of a delivery. Yield the results in batches that fit into memory.

    Equal keys have equal hashes, so only rows whose first hash repeats are compared, and `retained` has only such rows.
    `columns`: the key columns. `counts`: the number of rows in each of `2**bits` buckets. `limit`: about how many
    hashes are sorted at a time. Raises TooManyDuplicates.
    """
    for repeated in source.repeated_hashes(counts, bits, limit):
        if len(repeated) > _MAX_ROWS:  # each of these hashes has several rows
            raise TooManyDuplicates
        if len(repeated):
            selected = source.select(with_hashes(repeated), with_values=True)
            (keys,) = pack_keys(columns, [selected.key_columns]).lists
            yield resolve_duplicates(source, selected, keys, repeated_in(np.sort(keys)))


def resolve_duplicates(source: KeySource, rows: SelectedRows, keys: U64Array, repeated: U64Array) -> ResolvedDuplicates:
    """Resolve the duplicates among selected rows of `source`, whose packed keys are `keys`.

    `repeated` are the sorted packed keys to resolve. Values that `rows` lacks are read from the files. Raises
    TooManyDuplicates if the rows to resolve are too many, or too large for the memory.
    """
    indices = indices_of(keys, repeated)
    if not len(indices):
        return ResolvedDuplicates(rows, keys, rows.take(NO_INDICES))
    if len(indices) > _MAX_ROWS:
        raise TooManyDuplicates
    duplicates = rows.take(indices)
    lower = lower_ranked(keys[indices], duplicates.update_ids, _value_columns(source, duplicates))
    is_retained = np.ones(len(keys), dtype=bool)
    is_retained[indices[lower]] = False
    retained = np.flatnonzero(is_retained)
    surplus = replace(rows, value_columns=None).take(np.sort(indices[lower]))
    return ResolvedDuplicates(rows.take(retained), keys[retained], surplus)


def with_hashes(sorted_hashes: U64Array) -> RowSelector:
    """Return a selector of the rows whose first hash is one of `sorted_hashes`."""
    hashes = KeySet.from_sorted(sorted_hashes)
    return lambda first_hashes: RowSelection(hashes.indices_in(first_hashes), NO_INDICES)


def lower_ranked(keys: U64Array, update_ids: I64Array, values: Columns) -> Indices:
    """Indices of all rows except the highest one of each key, by update_id and then by values.

    If several rows are the highest, all but the first of them are returned.
    """
    lower: list[int] = []
    order = np.argsort(keys, kind="stable")
    best = -1
    best_rank: tuple[Any, ...] = ()
    for begin in range(0, len(order), _ROWS_AT_A_TIME):
        some = order[begin : begin + _ROWS_AT_A_TIME]
        columns = [update_ids[some].tolist(), *(column.to_pylist() for column in take_rows(values, some))]
        for index, row in zip(some.tolist(), zip(*columns, strict=True), strict=True):
            rank = tuple(map(comparable, row))
            is_same_key = best >= 0 and keys[index] == keys[best]
            if is_same_key and rank <= best_rank:
                lower.append(index)
                continue
            if is_same_key:
                lower.append(best)
            best, best_rank = index, rank
    return np.array(lower, dtype=np.intp)


def _value_columns(source: KeySource, rows: SelectedRows) -> Columns:
    """The value columns of the rows. Raises TooManyDuplicates if they are too large for the memory."""
    if rows.value_columns is not None:
        return rows.value_columns
    tables, size = [], 0
    for file in np.unique(rows.file_numbers):
        row_numbers = np.sort(rows.row_numbers[rows.file_numbers == file])
        for table in source.whole_rows(int(file), row_numbers):
            tables.append(table)
            size += table.nbytes
            if size > _MAX_BYTES:
                raise TooManyDuplicates
    read = pa.concat_tables(tables).select(list(source.value_columns))
    read_order = np.lexsort((rows.row_numbers, rows.file_numbers))
    own_order = np.empty_like(read_order)
    own_order[read_order] = np.arange(len(read_order))
    return tuple(read.take(pa.array(own_order)).columns)
