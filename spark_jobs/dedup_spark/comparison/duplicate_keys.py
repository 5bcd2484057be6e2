"""Finds the rows of one delivery that have equal keys, and decides which row of each key is retained.

The row with the highest update_id is retained. Of several such rows it is the one with the greatest values, compared
column by column in schema order (`value_order.py`). The other rows are surplus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dedup_spark.arrays import EMPTY_U64, I64Array, Indices, U64Array
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.keys import pack_keys, repeated_in, with_codes
from dedup_spark.comparison.selected_rows import Columns, RangedRows, SelectedRows, take_rows
from dedup_spark.value_order import comparable

# The most rows of repeated keys whose values are compared at a time, and the most bytes that are read for this. Python
# compares row by row, and takes some microseconds for each.
_MAX_ROWS = 1 << 18
_MAX_BYTES = 64 << 20
# Only this many rows are converted to Python values at a time, because Python values take much memory.
_ROWS_AT_A_TIME = 1 << 12


class TooManyDuplicates(Exception):
    """A date has so many rows of repeated keys that plan window has to write it."""

    def __init__(self) -> None:
        super().__init__("deliveries have too many rows of repeated keys to compare their values in a task's memory")


@dataclass(frozen=True)
class ResolvedDuplicates:
    """Rows divided into `retained`, which have each key once, and `surplus`.

    The surplus rows have no value columns. `surplus_words`: these rows as a sketch takes them.
    """

    retained: SelectedRows
    surplus: SelectedRows
    surplus_words: U64Array


def find_duplicates(source: KeySource, rows: int, limit: int) -> Iterator[ResolvedDuplicates]:
    """Resolve the duplicate keys of a delivery of about `rows` rows. Yield the results in batches that fit into memory.

    Equal keys have equal codes, so only rows whose code repeats are compared, and `retained` has only such rows.
    `limit`: about how many codes are sorted at a time. Raises TooManyDuplicates.
    """
    range_count, found = rows // limit + 1, [EMPTY_U64]
    for repeated in source.repeated_by_range(range_count):
        if len(repeated) > _MAX_ROWS:  # each of these codes has several rows
            raise TooManyDuplicates
        found.append(repeated)
    if not any(map(len, found)):
        return
    selected = RangedRows(range_count)
    source.select_into(selected, with_codes(np.concatenate(found)))
    for number in range(range_count):
        yield resolve_duplicates(source, selected.of_range(number))


def resolve_duplicates(source: KeySource, rows: SelectedRows) -> ResolvedDuplicates:
    """Resolve the duplicate keys of selected rows of `source`.

    Values that `rows` lacks are read from the files. Raises TooManyDuplicates if the rows to resolve are too many, or
    too large for the memory.
    """
    indices = with_codes(repeated_in(np.sort(rows.codes)))(rows.codes)
    (keys,) = pack_keys(source.encoder.keys, [take_rows(rows.key_columns, indices)])
    is_repeated = with_codes(repeated_in(np.sort(keys)))(keys)
    indices, keys = indices[is_repeated], keys[is_repeated]
    if len(indices) > _MAX_ROWS:
        raise TooManyDuplicates
    duplicates = rows.take(indices)
    values = _value_columns(source, duplicates)
    lower = np.sort(lower_ranked(keys, duplicates.update_ids, values))
    is_retained = np.ones(len(rows), dtype=bool)
    is_retained[indices[lower]] = False
    surplus = replace(duplicates, value_columns=None).take(lower)
    words = source.words(surplus.key_columns, take_rows(values, lower))
    return ResolvedDuplicates(rows.take(np.flatnonzero(is_retained)) if len(lower) else rows, surplus, words)


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
    complete = source.with_values(rows, _MAX_BYTES)
    if complete is None or complete.value_columns is None:
        raise TooManyDuplicates
    return complete.value_columns


def row_words(source: KeySource, rows: SelectedRows, indices: Indices) -> list[U64Array]:
    """The words of some rows, in parts, as a sketch takes them. Values that `rows` lacks are read from the files."""
    starts = range(0, len(indices), _ROWS_AT_A_TIME)
    parts = (rows.take(indices[start : start + _ROWS_AT_A_TIME]) for start in starts)
    return [source.words(part.key_columns, _value_columns(source, part)) for part in parts]
