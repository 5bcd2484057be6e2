"""Runs plan `window`: reads, ranks and writes all of its dates in one Spark job."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from pyspark.sql import Row, SparkSession

from dedup_clone.contract.manifest import DataFile, Difference, KeyExample
from dedup_clone.contract.request import DedupRequest
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import PARENT_SOURCE, Parent
from dedup_spark.plans.window.output_partitions import partition_dates, repartition
from dedup_spark.plans.window.partition_writer import RECORD_SCHEMA, PartitionWriter, examples_column
from dedup_spark.plans.window.row_ranking import in_written_order, rank
from dedup_spark.plans.window.sources import read_sources
from dedup_spark.plans.written_date import DateCost, WrittenDate


def run_window_plan(
    session: SparkSession,
    request: DedupRequest,
    dates: set[date],
    applied: tuple[ValidatedDelivery, ...],
    parent: Parent,
    file_bytes: int,
) -> list[WrittenDate]:
    """Write the files of `dates` below the request's data folder. Return what was written.

    `file_bytes`: the target size of a written file. Raises errors of Spark.
    """
    context, table = session.sparkContext, request.table
    partitions = partition_dates(bytes_by_date(dates, applied, parent), file_bytes, context.defaultParallelism)
    rows = repartition(read_sources(session, table, applied, parent, dates), table, partitions)
    writer = PartitionWriter(table, request.data_uri, {day: newest_source(day, applied) for day in dates}, len(applied))
    context.setJobDescription(f"{request.feed} generation {request.generation}: window over {len(dates)} dates, write")
    ranked = in_written_order(rank(rows, table, request.update_id_mode), table)
    records = ranked.mapInArrow(writer.write, RECORD_SCHEMA)
    by_date: defaultdict[date, list[Row]] = defaultdict(list)
    for record in records.collect():
        by_date[record.date].append(record)
    parent_bytes = parent.bytes_by_date()
    snapshot_ids = [validated.delivery.snapshot_id for validated in applied]
    return [_written_date(day, files, snapshot_ids, parent_bytes.get(day, 0)) for day, files in by_date.items()]


def _written_date(day: date, records: list[Row], snapshot_ids: list[int], parent_bytes: int) -> WrittenDate:
    """Return what was written for the date.

    `records`: one for each file. `snapshot_ids`: of the applied deliveries. `parent_bytes`: the parent's stored bytes.
    """
    _, *surplus_rows = map(sum, zip(*(r.surplus_rows for r in records), strict=True))  # the parent has none
    return WrittenDate(
        day=day,
        files=tuple(DataFile(r.path, day, r.rows, r.size, r.min_update_id, r.max_update_id) for r in records),
        new_keys=sum(r.new_keys for r in records),
        changed=sum(r.changed for r in records),
        survivors=sum(r.survivors for r in records),
        surplus_rows=dict(zip(snapshot_ids, surplus_rows, strict=True)),
        key_fingerprint=None,
        content_fingerprint=None,
        examples=tuple(
            KeyExample(day, difference, key)
            for r in records
            for difference in Difference
            for key in r[examples_column(difference)]
        ),
        cost=DateCost(parent_bytes, sum(r.size for r in records), seconds=None),
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
