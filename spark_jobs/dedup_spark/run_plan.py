"""Runs one plan over its dates: sources, resolution, writing, in one Spark job. Only file records reach the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import SparkSession

from dedup_clone.contract.manifest import DataFile, Difference, KeyExample
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.marks import STATE
from dedup_spark.parent import Parent
from dedup_spark.plans import PLANS
from dedup_spark.progress import DateProgress
from dedup_spark.rewrite.file_sizes import file_bytes
from dedup_spark.slices import slice_dates
from dedup_spark.sources import Sources, delivered_rows, state_rows
from dedup_spark.writer import RECORD_SCHEMA, Writer, column_of


@dataclass(frozen=True)
class WrittenFile:
    """A file of the new generation and what was counted while writing it. `ties` by source number."""

    file: DataFile
    new_keys: int
    changed: int
    survivors: int
    ties: tuple[int, ...]
    examples: tuple[KeyExample, ...]


def run_plan(
    session: SparkSession,
    request: DedupRequest,
    plan: Plan,
    dates: set[date],
    applied: tuple[ExaminedDelivery, ...],
    parent: Parent,
    say: Callable[[str], None],
) -> list[WrittenFile]:
    """`dates` are those that take this plan. Writes their files below the request's data folder."""
    context = session.sparkContext
    size = file_bytes(request, max((examined.bytes for examined in applied), default=0), parent)
    slices = slice_dates(bytes_by_date(dates, applied, parent), size, context.defaultParallelism)
    progress = DateProgress(context, slices.buckets, say)
    sources = Sources(
        request.table,
        request.update_id_mode,
        slices,
        delivered_rows(session, request.table, applied, dates),
        state_rows(session, request.table, parent, dates),
    )
    writer = Writer(
        request.table,
        request.data_uri,
        {day: newest_source(day, applied) for day in dates},
        len(applied),
        progress.reporter(),
    )
    context.setJobDescription(f"{request.feed} generation {request.generation}: {plan} over {len(dates)} dates, write")
    records = PLANS[plan](sources).mapInArrow(writer.write, RECORD_SCHEMA)
    with progress.reporting():
        rows = records.collect()
    return [
        WrittenFile(
            DataFile(r.path, r.date, r.rows, r.size, r.min_update_id, r.max_update_id),
            r.new_keys,
            r.changed,
            r.survivors,
            tuple(r.ties),
            tuple(KeyExample(r.date, difference, key) for difference in Difference for key in r[column_of(difference)]),
        )
        for r in rows
    ]


def newest_source(day: date, applied: tuple[ExaminedDelivery, ...]) -> int:
    """The last applied delivery that has the date; STATE when none has."""
    having = [number for number, examined in enumerate(applied, start=STATE + 1) if day in examined.kept]
    return max(having, default=STATE)


def bytes_by_date(dates: set[date], applied: tuple[ExaminedDelivery, ...], parent: Parent) -> dict[date, int]:
    """About what each date will hold: as much as its largest source, for they overlap almost wholly."""
    largest = {day: size for day, size in parent.bytes_by_date().items() if day in dates}
    for examined in applied:
        sizes = dict.fromkeys(dates, 0.0)
        for inspected in examined.files:
            rows = sum(inspected.rows_by_date.values())
            for day, count in inspected.rows_by_date.items():
                if day in sizes:
                    sizes[day] += inspected.file.size * count / rows
        for day, size in sizes.items():
            largest[day] = max(largest.get(day, 0), int(size))
    return largest
