"""Sizes of files, how dates are cut into files, the overlap of row groups, and examples of keys."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column, TableContract
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.data_files import target_file_bytes
from dedup_spark.landing.cluster_overlap import block_ranges, overlapping_share
from dedup_spark.landing.file_validation import LandedFile
from dedup_spark.parent import Parent
from dedup_spark.plans.window.window_plan import partition_dates
from tests.thoroughness import seeds

MEGABYTE = 1 << 20


def landed(count: int, size: int) -> list[LandedFile]:
    """The only files of so many deliveries."""
    return [LandedFile(f"{snapshot_id}", size, snapshot_id, None) for snapshot_id in range(count)]


def test_files_have_the_size_asked_for_unless_a_generation_of_many_terabytes_would_have_too_many() -> None:
    assert target_file_bytes(256 * MEGABYTE, landed(1, 15 << 40), Parent()) == 256 * MEGABYTE
    assert (150 << 40) / target_file_bytes(256 * MEGABYTE, landed(1, 150 << 40), Parent()) <= 125_000


def test_a_table_is_expected_to_be_as_large_as_its_largest_delivery_not_as_all_together() -> None:
    assert len({target_file_bytes(1, landed(count, 80 << 40), Parent()) for count in (1, 2)}) == 1


FIRST_DAY = date(2026, 1, 1)
FILE_BYTES = 256 << 20


def days(count: int, size: int) -> dict[date, int]:
    return {FIRST_DAY + timedelta(days=n): size for n in range(count)}


def test_small_date_is_one_file() -> None:
    assert set(partition_dates(days(13, 1000), FILE_BYTES, core_count=2).file_counts.values()) == {1}


def test_large_date_is_cut_into_files_of_at_most_the_target_size() -> None:
    (count,) = partition_dates(days(1, 20 << 30), FILE_BYTES, core_count=2).file_counts.values()
    assert (20 << 30) / count <= FILE_BYTES
    assert (20 << 30) / count > FILE_BYTES / 2


def test_small_generation_has_no_more_tasks_than_files_nor_many_for_each_core() -> None:
    assert partition_dates(days(2, 1000), FILE_BYTES, core_count=2).task_count == 2
    assert partition_dates(days(730, 1000), FILE_BYTES, core_count=2).task_count == 8


def test_large_generation_has_a_task_for_each_target_size() -> None:
    partitions = partition_dates(days(730, 20 << 30), FILE_BYTES, core_count=100)
    assert partitions.task_count == 730 * 80


def parquet(values: Sequence[Any], **options: Any) -> pq.FileMetaData:
    """The footer of a file with two rows in each row group."""
    content = io.BytesIO()
    pq.write_table(pa.table({"other": range(len(values)), "key": values}), content, row_group_size=2, **options)
    return pq.read_metadata(io.BytesIO(content.getvalue()))


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
    assert block_ranges(file.metadata, "key") is None


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


@pytest.mark.parametrize("seed", seeds(25))
def test_the_share_is_that_of_comparing_all_pairs(seed: int) -> None:
    rng = random.Random(seed)
    bounds = [sorted(rng.choices(range(30), k=2)) for _ in range(rng.randrange(1, 12))]
    blocks = [(low, high) for low, high in bounds if low < high]  # a block of one value may lie inside another's bound

    def overlaps(number: int) -> bool:
        low, high = blocks[number]
        return any(low < b and a < high for n, (a, b) in enumerate(blocks) if n != number)

    expected = sum(map(overlaps, range(len(blocks)))) / len(blocks) if blocks else 0.0
    assert overlapping_share([tuple(blocks)]) == expected


NUMBERED = TableContract(
    columns=(Column("date", "DATE"), Column("number", "NUMERIC"), Column("update_id", "INT64")),
    partition_column="date",
    snapshot_id_column="update_id",
    keys=("date", "number"),
    cluster_by=(),
    retention_days=730,
)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
        ("-99999999999999999999999999999.999999999", "-99999999999999999999999999999.999999999"),
        ("1200.500000000", "1200.5"),
        ("100.000000000", "100"),
        ("0.000000000", "0"),
    ],
)
def test_number_is_shown_with_all_of_its_digits_and_no_other(stored: str, text: str) -> None:
    assert key_texts(NUMBERED, [[Decimal(stored)]]) == [f"number={text}"]
