"""Rows of one delivery with equal keys: the one with the greatest values stays, the others are surplus.

Values are compared as the data contract says: column by column in schema order, NULL lowest, NaN highest, text by its
UTF-8 bytes, lists and structs element by element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dedup_spark.adopt.comparison import places
from dedup_spark.adopt.picked import NO_ROWS, Choose, ChosenRows, Picked, Rows, Values
from dedup_spark.adopt.side import Side
from dedup_spark.fingerprints.key_columns import Words

# Rows of repeated keys whose values are looked at, one by one in Python: some microseconds each.
_MOST_ROWS = 1 << 18
_MOST_BYTES = 64 << 20
_ROWS_AT_A_TIME = 1 << 12


@dataclass(frozen=True)
class Ties:
    """`staying` rows have each key once, `words` are theirs; `surplus` are the others, without values.

    Where `ranked` is False they were too many to be looked at: which row of a key is the surplus one is not known.
    """

    staying: Picked
    words: Words
    surplus: Picked
    ranked: bool


def settle_ties(side: Side, rows: Picked, words: Words, repeated: Words) -> Ties:
    """Among the rows with one of the `repeated` words, which are sorted. Values that are not at hand are read again.

    Of rows with several update_ids the highest counts first.
    """
    tied = places(words, repeated)
    if not len(tied):
        return Ties(rows, words, rows.only(NO_ROWS), ranked=True)
    of_tied = rows.only(tied)
    values = _values(side, of_tied)
    lost = repetitions(words[tied]) if values is None else losers(words[tied], of_tied, values)
    stays = np.ones(len(words), dtype=bool)
    stays[tied[lost]] = False
    staying = np.flatnonzero(stays)
    surplus = replace(rows, others=None).only(np.sort(tied[lost]))
    return Ties(rows.only(staying), words[staying], surplus, ranked=values is not None)


def repeated_in(ordered: Words) -> Words:
    """Those that are there more than once in a sorted list."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def repetitions(words: Words) -> Rows:
    """Places of all but one of each word."""
    order = np.argsort(words, kind="stable")
    again = np.flatnonzero(words[order][1:] == words[order][:-1]) + 1
    return order[again]


def among(wanted: Words) -> Choose:
    """Chooses rows whose first hash is one of `wanted`, which are sorted."""
    return lambda first: ChosenRows(places(first, wanted), NO_ROWS)


def losers(words: Words, rows: Picked, values: Values) -> Rows:
    """Places of all rows but the greatest of each word; of equal ones any stays."""
    lost: list[int] = []
    order = np.argsort(words, kind="stable")
    best = -1
    greatest: tuple[Any, ...] = ()
    for begin in range(0, len(order), _ROWS_AT_A_TIME):  # few at a time: Python's values take much memory
        some = order[begin : begin + _ROWS_AT_A_TIME]
        columns = [rows.ids[some].tolist(), *(column.take(pa.array(some)).to_pylist() for column in values)]
        for place, row in zip(some.tolist(), zip(*columns, strict=True), strict=True):
            rank = tuple(map(_ordered, row))
            is_same = best >= 0 and words[place] == words[best]
            if is_same and rank <= greatest:
                lost.append(place)
                continue
            if is_same:
                lost.append(best)
            best, greatest = place, rank
    return np.array(lost, dtype=np.intp)


def _ordered(value: Any) -> tuple[Any, ...]:
    """The value as what Python compares as the contract does."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(map(_ordered, value.values())))
    if isinstance(value, list):
        return (1, tuple(map(_ordered, value)))
    return (1, value)


def _values(side: Side, tied: Picked) -> Values | None:
    """The rows' value columns; None where they are too many to be held."""
    if len(tied) > _MOST_ROWS:
        return None
    if tied.others is not None:
        return tied.others
    tables, size = [], 0
    for number in np.unique(tied.files):
        kept = np.sort(tied.rows[tied.files == number])
        for table in side.rows_of(int(number), kept):
            tables.append(table)
            size += table.nbytes
            if size > _MOST_BYTES:
                return None
    found = pa.concat_tables(tables).select(list(side.value_columns))
    by_place = np.lexsort((tied.rows, tied.files))
    back = np.empty_like(by_place)
    back[by_place] = np.arange(len(by_place))
    return tuple(found.take(pa.array(back)).columns)
