"""How the dates are cut into buckets: one output file each, in one shuffle that serves dedup and writing alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract
from dedup_spark.marks import BUCKET

# Tasks of small generations: enough to keep the cores busy, few enough that their start costs nothing.
_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class Slices:
    """`buckets` of each date (powers of two), and the number of tasks that share them."""

    buckets: dict[date, int]
    tasks: int


def slice_dates(bytes_by_date: Mapping[date, int], file_bytes: int, cores: int) -> Slices:
    """`bytes_by_date` is what a date will hold as written, about; smaller dates than `file_bytes` get one file."""
    buckets = {day: _power_of_two(size / file_bytes) for day, size in bytes_by_date.items()}
    pairs = sum(buckets.values())
    full = sum(bytes_by_date.values()) // file_bytes
    return Slices(buckets, max(1, min(pairs, max(full, cores * _TASKS_PER_CORE))))


def with_bucket(rows: DataFrame, table: TableContract, slices: Slices) -> DataFrame:
    """Adds the bucket and brings the rows of one bucket into one task."""
    day = table.partition_column
    others = [name for name in table.keys if name != day]
    if not others or max(slices.buckets.values()) == 1:
        return rows.withColumn(BUCKET, f.lit(0)).repartition(slices.tasks, day)
    bucket = f.pmod(f.xxhash64(*others), _buckets(day, slices)).cast("int")
    return rows.withColumn(BUCKET, bucket).repartition(slices.tasks, day, BUCKET)


def _buckets(partition_column: str, slices: Slices) -> Column:
    """The number of buckets of a row's date: the usual number first, dates that differ from it listed."""
    dates_by_count: defaultdict[int, list[date]] = defaultdict(list)
    for day, count in slices.buckets.items():
        dates_by_count[count].append(day)
    usual = max(dates_by_count, key=lambda count: len(dates_by_count[count]))
    counts = f.lit(usual)
    for count, days in sorted(dates_by_count.items()):
        if count != usual:
            counts = f.when(f.col(partition_column).isin(days), f.lit(count)).otherwise(counts)
    return counts


def _power_of_two(share: float) -> int:
    count = 1
    while count < share:
        count *= 2
    return count
