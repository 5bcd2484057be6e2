"""Runs plan `window`: reads, ranks and writes all of its dates in one Spark job."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from datetime import date

from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import Difference
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import PARENT_SOURCE, Parent
from dedup_spark.plans.window.output_partitions import partition_dates, repartition
from dedup_spark.plans.window.ranking import in_written_order, rank
from dedup_spark.plans.window.source_rows import read_sources
from dedup_spark.plans.window.writing import RECORD_SCHEMA, FileRecord, RowWriter
from dedup_spark.plans.written_date import WrittenDate


def run_window_plan(
    session: SparkSession,
    attempt: Attempt,
    dates: set[date],
    applied: tuple[ValidatedDelivery, ...],
    parent: Parent,
    file_bytes: int,
) -> list[WrittenDate]:
    """Write the files of `dates` below the attempt's data folder. Return what was written.

    `file_bytes`: the target size of a written file. Raises errors of Spark.
    """
    context, table = session.sparkContext, attempt.table
    partitions = partition_dates(bytes_by_date(dates, applied, parent), file_bytes, context.defaultParallelism)
    rows = repartition(read_sources(session, table, applied, parent, dates), table, partitions)
    writer = RowWriter(table, attempt.data_uri, {day: newest_source(day, applied) for day in dates})
    context.setJobDescription(f"{attempt.feed} generation {attempt.generation}: window over {len(dates)} dates, write")
    ranked = in_written_order(rank(rows, table, attempt.update_id_mode), table)
    by_date: defaultdict[date, list[FileRecord]] = defaultdict(list)
    for row in ranked.mapInArrow(writer.write, RECORD_SCHEMA).collect():
        record: FileRecord = pickle.loads(row.record)
        by_date[record.file.date].append(record)
    return [_written_date(day, records, applied) for day, records in by_date.items()]


def _written_date(day: date, records: list[FileRecord], applied: tuple[ValidatedDelivery, ...]) -> WrittenDate:
    """Return what was written for the date. `records`: one for each file."""
    differing, surplus = Counter[Difference](), Counter[int]()
    for record in records:
        differing += record.differing
        surplus += record.surplus
    return WrittenDate(
        day=day,
        files=tuple(record.file for record in records),
        new_keys=differing[Difference.NEW],
        changed=differing[Difference.CHANGED],
        survivors=differing[Difference.SURVIVOR],
        surplus_rows={v.delivery.snapshot_id: surplus[n] for n, v in enumerate(applied, start=PARENT_SOURCE + 1)},
        key_fingerprint=None,
        examples=tuple(example for record in records for example in record.examples),
    )


def newest_source(day: date, applied: tuple[ValidatedDelivery, ...]) -> int:
    """Return the number of the last applied delivery that has the date; PARENT_SOURCE when none has."""
    sources = [
        number for number, validated in enumerate(applied, start=PARENT_SOURCE + 1) if day in validated.retained_rows
    ]
    return max(sources, default=PARENT_SOURCE)


def bytes_by_date(dates: set[date], applied: tuple[ValidatedDelivery, ...], parent: Parent) -> dict[date, int]:
    """Estimate the bytes of each date: as many as its largest source has, because the sources share most keys."""
    largest = {day: size for day, size in parent.bytes_by_date().items() if day in dates}
    for validated in applied:
        sizes = dict.fromkeys(dates, 0.0)
        for file in validated.files:
            rows = sum(file.rows_by_date.values())
            for day, count in file.rows_by_date.items():
                if day in sizes:
                    sizes[day] += file.file.size * count / rows
        for day, size in sizes.items():
            largest[day] = max(largest.get(day, 0), int(size))
    return largest
