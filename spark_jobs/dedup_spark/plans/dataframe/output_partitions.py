"""How the rows of the dates are divided into output files, by one shuffle that serves dedup and writing alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract
from dedup_spark.plans.dataframe.helper_columns import OUTPUT_FILE

# Tasks of small generations: enough to keep the cores busy, few enough that their start costs nothing.
_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class OutputPartitions:
    """The number of files of each date (powers of two), and the number of Spark tasks that write them."""

    files: dict[date, int]
    tasks: int


def partition_dates(bytes_by_date: Mapping[date, int], file_bytes: int, cores: int) -> OutputPartitions:
    """`bytes_by_date` is about what each date will hold as written; a date smaller than `file_bytes` gets one file."""
    files = {day: _power_of_two(size / file_bytes) for day, size in bytes_by_date.items()}
    full_files = sum(bytes_by_date.values()) // file_bytes
    return OutputPartitions(files, max(1, min(sum(files.values()), max(full_files, cores * _TASKS_PER_CORE))))


def repartition(rows: DataFrame, table: TableContract, partitions: OutputPartitions) -> DataFrame:
    """Add the number of the output file, and bring the rows of one output file into one task."""
    day = table.partition_column
    other_keys = [name for name in table.keys if name != day]
    if not other_keys or max(partitions.files.values()) == 1:
        return rows.withColumn(OUTPUT_FILE, f.lit(0)).repartition(partitions.tasks, day)
    number = f.pmod(f.xxhash64(*other_keys), _files(day, partitions)).cast("int")
    return rows.withColumn(OUTPUT_FILE, number).repartition(partitions.tasks, day, OUTPUT_FILE)


def _files(partition_column: str, partitions: OutputPartitions) -> Column:
    """The number of files of a row's date: most dates have the most_common number, the others are listed."""
    dates_by_count: defaultdict[int, list[date]] = defaultdict(list)
    for day, count in partitions.files.items():
        dates_by_count[count].append(day)
    most_common = max(dates_by_count, key=lambda count: len(dates_by_count[count]))
    counts = f.lit(most_common)
    for count, days in sorted(dates_by_count.items()):
        if count != most_common:
            counts = f.when(f.col(partition_column).isin(days), f.lit(count)).otherwise(counts)
    return counts


def _power_of_two(share: float) -> int:
    count = 1
    while count < share:
        count *= 2
    return count
