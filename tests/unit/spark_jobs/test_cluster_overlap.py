"""Ranges of a clustering column from the footers of files, and the share of them that overlap."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_spark.comparison.cluster_overlap import block_ranges, overlapping_share


def parquet(values: Sequence[Any], **options: Any) -> pq.ParquetFile:
    """A file with two rows in each row group."""
    content = io.BytesIO()
    pq.write_table(pa.table({"other": range(len(values)), "key": values}), content, row_group_size=2, **options)
    return pq.ParquetFile(io.BytesIO(content.getvalue()))


def test_each_row_group_has_the_range_of_its_values() -> None:
    assert block_ranges(parquet([3, 1, 5, None]), "key") == ((1, 3), (5, 5))
    assert block_ranges(parquet(["b", "a", "\u00e9", "c"]), "key") == (("a", "b"), ("c", "\u00e9"))
    assert block_ranges(parquet([None, None, 4, 4]), "key") == ((4, 4),)


def test_a_file_without_statistics_or_without_the_column_has_no_known_ranges() -> None:
    assert block_ranges(parquet([1, 2], write_statistics=False), "key") is None
    assert block_ranges(parquet([1, 2]), "absent") is None


@pytest.mark.parametrize(
    ("values", "bound", "wrong"),
    [
        (["aaaa", "bbbb"], b"bbbb", b"bb\xe9\xe9"),  # text that was cut inside a character, or is Latin-1
        (pa.array([1, 2], pa.timestamp("us", "UTC")), (2).to_bytes(8, "little"), (2**62).to_bytes(8, "little")),
    ],
)
def test_file_whose_footer_has_impossible_bounds_has_no_known_ranges(values: Any, bound: bytes, wrong: bytes) -> None:
    content = io.BytesIO()
    pq.write_table(pa.table({"key": values}), content)
    footer_bytes = int.from_bytes(content.getvalue()[-8:-4], "little") + 8
    pages, footer = content.getvalue()[:-footer_bytes], content.getvalue()[-footer_bytes:]
    assert bound in footer
    file = pq.ParquetFile(io.BytesIO(pages + footer.replace(bound, wrong)))
    assert file.read().num_rows == 2
    assert block_ranges(file, "key") is None


@pytest.mark.parametrize(
    ("ranges", "share"),
    [
        ([((1, 2), (3, 4)), ((5, 9),)], 0.0),
        ([((1, 2), (2, 4)), ((4, 4), (4, 9))], 0.0),  # a common bound is no overlap
        ([((1, 5),), ((4, 9),), ((10, 11),), ((12, 13),)], 0.5),
        ([((1, 100), (2, 3), (50, 51), (200, 201))], 0.75),
        ([((1, 2),), None], None),
        ([((1, 2),), (("a", "b"),)], None),
        ([], 0.0),
    ],
)
def test_the_share_counts_blocks_with_values_in_common(ranges: list[Any], share: float | None) -> None:
    assert overlapping_share(ranges) == share


@pytest.mark.parametrize("seed", range(100))
def test_the_share_is_that_of_comparing_all_pairs(seed: int) -> None:
    rng = random.Random(seed)
    bounds = [sorted(rng.choices(range(30), k=2)) for _ in range(rng.randrange(1, 12))]
    blocks = [(low, high) for low, high in bounds if low < high]  # a block of one value may lie inside another's bound

    def overlaps(number: int) -> bool:
        low, high = blocks[number]
        return any(low < b and a < high for n, (a, b) in enumerate(blocks) if n != number)

    expected = sum(map(overlaps, range(len(blocks)))) / len(blocks) if blocks else 0.0
    assert overlapping_share([tuple(blocks)]) == expected
