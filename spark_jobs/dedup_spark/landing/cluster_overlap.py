"""Measures how well a date is sorted by the first clustering column, from the lowest and highest value of each block.

A block is a row group of a file, or a sorted run of rows that the job writes. BigQuery's own blocks cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

Range = tuple[Any, Any]  # the lowest and the highest value of a block


def block_ranges(file: pq.ParquetFile, column: str) -> tuple[Range, ...] | None:
    """The range of each row group that has a value of the column.

    None if the file lacks the column, or if its footer lacks the bounds of one of these row groups or has wrong ones.
    """
    ranges: list[Range] = []
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        chunks = [metadata.column(number) for number in range(metadata.num_columns)]
        statistics = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == column), None)
        if statistics is None:
            return None
        if statistics.has_min_max:
            try:
                ranges.append((statistics.min, statistics.max))
            except (ValueError, OverflowError):
                # A bound is not UTF-8, or a time that Python cannot represent. Values are validated, bounds are not.
                return None
        elif not (statistics.has_null_count and statistics.null_count == metadata.num_rows):
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
