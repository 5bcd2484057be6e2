"""Reads the lowest and highest value of each block of a column, and measures how well they are sorted.

A block is a row group of a file, or a sorted run of rows that the job writes. BigQuery's own blocks cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

Range = tuple[Any, Any]  # the lowest and the highest value of a block


def block_ranges(metadata: pq.FileMetaData, column: str) -> tuple[Range, ...] | None:
    """The range of each row group that has a value of the column.

    None if the file lacks the column, or if its footer lacks the bounds of one of these row groups or has wrong ones.
    """
    ranges: list[Range] = []
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        statistics = row_group.column(paths.index(column)).statistics if column in paths else None
        if statistics is None:
            return None
        if statistics.has_min_max:
            try:
                ranges.append((statistics.min, statistics.max))
            except (ValueError, OverflowError):
                # A bound is not UTF-8, or a time that Python cannot represent. Values are validated, bounds are not.
                return None
        elif not (statistics.has_null_count and statistics.null_count == row_group.num_rows):
            return None
    return tuple(ranges)


def overlapping_share(ranges: Iterable[tuple[Range, ...] | None]) -> float | None:
    """The share of blocks (0 to 1) whose range overlaps another block's by more than a shared bound; 0 without blocks.

    `ranges`: the block ranges of each file. Returns None if a file has None, or values that cannot be compared.
    """
    blocks: list[Range] = []
    for of_file in ranges:
        if of_file is None:
            return None
        blocks += of_file
    try:
        return _share(blocks)
    except TypeError:  # files of different writers may have text in one and bytes in the other
        return None


def _share(blocks: list[Range]) -> float:
    overlapping: set[int] = set()
    furthest: int | None = None  # of the blocks so far, the one with the highest value
    for number in sorted(range(len(blocks)), key=lambda number: blocks[number]):
        if furthest is not None and blocks[number][0] < blocks[furthest][1]:
            overlapping |= {number, furthest}
        if furthest is None or blocks[number][1] > blocks[furthest][1]:
            furthest = number
    return len(overlapping) / len(blocks) if blocks else 0.0
