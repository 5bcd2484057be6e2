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

# The most rows of repeated keys whose values are compared, and the most bytes that are read for this. Python compares
# row by row, in some microseconds each.
_MAX_ROWS = 1 << 18
_MAX_BYTES = 64 << 20
# So many rows are converted to Python values at a time, because Python values take much memory.
_ROWS_AT_A_TIME = 1 << 12


@dataclass(frozen=True)
class ResolvedDuplicates:
    """Rows divided into `retained`, with one row of each key that was resolved, and the surplus rows.

    `keys`: the packed keys of `retained`, which also has the rows of keys that were not to be resolved. `surplus` has
    no value columns. `is_exact` is False if the rows were too many to compare their values: then an arbitrary row of
    each key is retained, and only the numbers of rows are right.
    """

    retained: SelectedRows
    keys: U64Array
    surplus: SelectedRows
    is_exact: bool


def find_duplicates(
    source: KeySource, columns: tuple[Column, ...], counts: npt.NDArray[Any], bits: int, limit: int
) -> Iterator[ResolvedDuplicates]:
    """Yield the duplicate keys of a delivery, resolved, in parts that fit into memory.

    Equal keys have equal hashes, so only rows whose first hash repeats are compared, and `retained` has only such rows.
    `columns`: the key columns. `counts`: the number of rows in each of `2**bits` buckets. `limit`: about how many
    hashes are sorted at a time.
    """
    for repeated in source.repeated_hashes(counts, bits, limit):
        if len(repeated):
            selected = source.select(with_hashes(repeated), with_values=True)
            (keys,) = pack_keys(columns, [selected.key_columns]).lists
            yield resolve_duplicates(source, selected, keys, repeated_in(np.sort(keys)))


def resolve_duplicates(source: KeySource, rows: SelectedRows, keys: U64Array, repeated: U64Array) -> ResolvedDuplicates:
    """Resolve the duplicates among selected rows of `source`, whose packed keys are `keys`.

    `repeated` are the sorted packed keys to resolve. Values that `rows` lacks are read from the files.
    """
    indices = indices_of(keys, repeated)
    if not len(indices):
        return ResolvedDuplicates(rows, keys, rows.take(NO_INDICES), is_exact=True)
    duplicates = rows.take(indices)
    values = _value_columns(source, duplicates)
    lower = repetitions(keys[indices]) if values is None else lower_ranked(keys[indices], duplicates.update_ids, values)
    is_retained = np.ones(len(keys), dtype=bool)
    is_retained[indices[lower]] = False
    retained = np.flatnonzero(is_retained)
    surplus = replace(rows, value_columns=None).take(np.sort(indices[lower]))
    return ResolvedDuplicates(rows.take(retained), keys[retained], surplus, is_exact=values is not None)


def repetitions(keys: U64Array) -> Indices:
    """Indices of all rows except the first one of each key."""
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
    return order[again]


def with_hashes(sorted_hashes: U64Array) -> RowSelector:
    """Return a selector of the rows whose first hash is one of `sorted_hashes`."""
    hashes = KeySet.from_sorted(sorted_hashes)
    return lambda first_hashes: RowSelection(hashes.indices_in(first_hashes), NO_INDICES)


def lower_ranked(keys: U64Array, update_ids: I64Array, values: Columns) -> Indices:
    """Indices of all rows except the highest one of each key, by update_id and then by values.

    Of several rows that are equal in all of these, the first one is not returned.
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


def _value_columns(source: KeySource, rows: SelectedRows) -> Columns | None:
    """The value columns of the rows. None if the rows are too many to compare, or too large for the memory."""
    if len(rows) > _MAX_ROWS:
        return None
    if rows.value_columns is not None:
        return rows.value_columns
    tables, size = [], 0
    for file in np.unique(rows.file_numbers):
        row_numbers = np.sort(rows.row_numbers[rows.file_numbers == file])
        for table in source.whole_rows(int(file), row_numbers):
            tables.append(table)
            size += table.nbytes
            if size > _MAX_BYTES:
                return None
    read = pa.concat_tables(tables).select(list(source.value_columns))
    read_order = np.lexsort((rows.row_numbers, rows.file_numbers))
    own_order = np.empty_like(read_order)
    own_order[read_order] = np.arange(len(read_order))
    return tuple(read.take(pa.array(own_order)).columns)
