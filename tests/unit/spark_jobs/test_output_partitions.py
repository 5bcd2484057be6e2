"""How dates are cut into files and files into tasks."""

from __future__ import annotations

from datetime import date, timedelta

from dedup_spark.plans.dataframe.output_partitions import partition_dates

FIRST = date(2026, 1, 1)
FILE_BYTES = 256 << 20


def days(count: int, size: int) -> dict[date, int]:
    return {FIRST + timedelta(days=n): size for n in range(count)}


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
