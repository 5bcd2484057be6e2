"""Aligns the rows of several sources by their keys, which are compared exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dedup_clone.contract.table import Column
from dedup_spark.arrays import EMPTY_U64, Indices
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.selected_rows import SelectedRows

ABSENT = -1


def align(columns: tuple[Column, ...], sources: Sequence[SelectedRows]) -> Indices:
    """Return one line for each source, with a column for each key that some source has.

    A line has the index of the source's row with the key, or ABSENT. `columns`: the key columns. Each source must have
    each key at most once.
    """
    lists = pack_keys(columns, [rows.key_columns for rows in sources])
    distinct, numbers = np.unique(np.concatenate([EMPTY_U64, *lists]), return_inverse=True)
    aligned = np.full((len(sources), len(distinct)), ABSENT, np.intp)
    start = 0
    for line, keys in zip(aligned, lists, strict=True):
        line[numbers[start : start + len(keys)]] = np.arange(len(keys))
        start += len(keys)
    return aligned
