"""Divides the rows of each date into output files, by one shuffle that serves both dedup and writing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract
from dedup_spark.execution.fan_out import TASKS_PER_CORE
from dedup_spark.plans.window.ranking import DESTINATION_FILE


@dataclass(frozen=True)
class OutputPartitions:
    """The number of files of each date (powers of two), and the number of Spark tasks that write them."""

    file_counts: dict[date, int]
    task_count: int


def partition_dates(bytes_by_date: Mapping[date, int], file_bytes: int, core_count: int) -> OutputPartitions:
    """Return the partitions. `bytes_by_date`: about how large each date will be. `file_bytes`: the target file size.

    There are at most as many tasks as files. There are fewer if many files are small.
    """
    file_counts = {day: _power_of_two(size / file_bytes) for day, size in bytes_by_date.items()}
    full_file_count = sum(bytes_by_date.values()) // file_bytes
    task_count = min(sum(file_counts.values()), max(full_file_count, core_count * TASKS_PER_CORE))
    return OutputPartitions(file_counts, max(1, task_count))


def repartition(rows: DataFrame, table: TableContract, partitions: OutputPartitions) -> DataFrame:
    """Add the number of each row's output file, and bring all rows of one output file into one task."""
    day = table.partition_column
    other_keys = [name for name in table.keys if name != day]
    if not other_keys or max(partitions.file_counts.values()) == 1:
        return rows.withColumn(DESTINATION_FILE, f.lit(0)).repartition(partitions.task_count, day)
    number = f.pmod(f.xxhash64(*other_keys), _file_count(day, partitions)).cast("int")
    return rows.withColumn(DESTINATION_FILE, number).repartition(partitions.task_count, day, DESTINATION_FILE)


def _file_count(partition_column: str, partitions: OutputPartitions) -> Column:
    """The number of files of a row's date: the most common number, except for dates that the expression lists."""
    dates_by_count: defaultdict[int, list[date]] = defaultdict(list)
    for day, count in partitions.file_counts.items():
        dates_by_count[count].append(day)
    most_common = max(dates_by_count, key=lambda count: len(dates_by_count[count]))
    counts = f.lit(most_common)
    for count, days in sorted(dates_by_count.items()):
        if count != most_common:
            counts = f.when(f.col(partition_column).isin(days), f.lit(count)).otherwise(counts)
    return counts


def _power_of_two(least: float) -> int:
    """The lowest power of two that is at least `least`."""
    count = 1
    while count < least:
        count *= 2
    return count
