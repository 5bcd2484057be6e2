"""Runs plan `window`: reads, ranks and writes all of its dates in one Spark job.

One shuffle divides the rows of each date into output files, and serves both dedup and writing. The ranked rows are
sorted by date, output file and clustering columns. Spark's Python workers write them, and return one record for each
file. Each attempt of a Spark task writes files with unique names, and only records of attempts that Spark accepts reach
the driver, so the files of lost or repeated attempts are in no manifest.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, IntegerType, StructField, StructType

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, DataFile, Difference, KeyExample
from dedup_clone.contract.table import Absent, TableContract
from dedup_spark import storage
from dedup_spark.arrays import U64Array
from dedup_spark.arrow_cast import cast_table, complete_batch, dates_of, nullable_type
from dedup_spark.column_types import arrow_schema, arrow_type, spark_schema
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.data_files import write_file
from dedup_spark.execution.fan_out import TASKS_PER_CORE
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.parent import PARENT_SOURCE, Parent
from dedup_spark.plans.date_task import WrittenDate
from dedup_spark.plans.delivered_date import DeliveriesByDate
from dedup_spark.plans.window.ranking import (
    CHANGED,
    DAY,
    DESTINATION_FILE,
    IN_PARENT,
    NEWEST,
    SOURCE,
    SURPLUS,
    rank,
)

# A pickled pair of a DataFile and its FileCounts.
_RECORD_SCHEMA = "record binary"
_RECORD_ARROW = pa.schema([("record", pa.binary())])


def run_window_plan(
    session: SparkSession, attempt: Attempt, dates: DeliveriesByDate, parent: Parent, file_bytes: int
) -> list[WrittenDate]:
    """Write the files of `dates` below the attempt's data folder. Return what was written.

    All files of the deliveries must have been read. `file_bytes`: the target size of a written file. Raises errors of
    Spark.
    """
    context, table = session.sparkContext, attempt.table
    deliveries = sorted({dated.delivery for delivered in dates.values() for dated in delivered})
    sources = {delivery: number for number, delivery in enumerate(deliveries, start=PARENT_SOURCE + 1)}
    partitions = partition_dates(_bytes_by_date(dates, parent), file_bytes, context.defaultParallelism)
    reader = _FileReader(table, partitions.file_counts)
    rows = _read_sources(session, reader, dates, sources, parent)
    newest = {day: sources[found[-1].delivery] for day, found in dates.items()}
    writer = _RowWriter(table, attempt.data_uri, newest)
    context.setJobDescription("rank the rows of dates, and write")
    ranked = rank(rows, table, attempt.update_id_mode, partitions.task_count)
    by_date: defaultdict[date, list[tuple[DataFile, _FileCounts]]] = defaultdict(list)
    for row in ranked.mapInArrow(writer.write, _RECORD_SCHEMA).collect():
        file, counts = pickle.loads(row.record)
        by_date[file.date].append((file, counts))
    return [_written_date(day, records, sources) for day, records in by_date.items()]


def _written_date(day: date, files: list[tuple[DataFile, _FileCounts]], sources: Mapping[Delivery, int]) -> WrittenDate:
    """Return what was written for the date."""
    differing, surplus = Counter[Difference](), Counter[int]()
    for _, counts in files:
        differing += counts.differing
        surplus += counts.surplus
    return WrittenDate(
        day=day,
        files=tuple(file for file, _ in files),
        new_keys=differing[Difference.NEW],
        changed=differing[Difference.CHANGED],
        survivors=differing[Difference.SURVIVOR],
        surplus_rows={delivery.snapshot_id: surplus[number] for delivery, number in sources.items()},
        key_fingerprint=None,
        examples=tuple(example for _, counts in files for example in counts.examples),
    )


def _read_sources(
    session: SparkSession,
    reader: _FileReader,
    dates: DeliveriesByDate,
    sources: Mapping[Delivery, int],
    parent: Parent,
) -> DataFrame:
    """Return the rows of these dates from the parent and the deliveries, with DAY, SOURCE and DESTINATION_FILE."""
    days: defaultdict[tuple[str, int], list[date]] = defaultdict(list)
    for file in (file for file in parent.files if file.date in dates):
        days[storage.join(parent.data_uri, file.path), PARENT_SOURCE].append(file.date)
    for day, dated in ((day, dated) for day, delivered in dates.items() for dated in delivered):
        for landed in dated.files:
            days[landed.uri, sources[dated.delivery]].append(day)
    files = [(uri, source, of_file) for (uri, source), of_file in days.items()]
    context = session.sparkContext
    task_count = min(len(files), context.defaultParallelism * TASKS_PER_CORE)
    tasks = session.createDataFrame(context.parallelize(files, task_count), "uri string, source int, days array<date>")
    helpers = [StructField(name, IntegerType()) for name in (SOURCE, DESTINATION_FILE)]
    columns = [*spark_schema(reader.table.columns), StructField(DAY, DateType()), *helpers]
    return tasks.mapInArrow(reader.read, StructType(columns))


@dataclass(frozen=True)
class _FileReader:
    """Reads the files of a Spark task. `file_counts`: into how many files the rows of each date are written.

    Spark itself reads no Parquet: each of its versions reads another set of files. Spark 3.5.3, for example, returns
    wrong texts from the encoding DELTA_LENGTH_BYTE_ARRAY (SPARK-52240).
    """

    table: TableContract
    file_counts: dict[date, int]

    def read(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the files' rows of their `days`, with the declared columns, DAY, SOURCE and DESTINATION_FILE."""
        schema = pa.schema([(column.name, nullable_type(arrow_type(column))) for column in self.table.columns])
        for file in (row for task in tasks for row in task.to_pylist()):
            uri, days = file["uri"], pa.array(file["days"], pa.date32())
            counts = np.array([self.file_counts[day] for day in file["days"]], np.uint64)
            with storage.open_input(uri) as stream, storage.open_parquet(stream) as parquet:
                for _, read in storage.read_batches(parquet):
                    batch = complete_batch(self.table, uri, read, self.table.columns)
                    rows = cast_table(pa.Table.from_batches([batch.select(schema.names)]), schema)
                    rows = rows.append_column(DAY, dates_of(rows.column(self.table.partition_column)))
                    positions = pc.index_in(rows.column(DAY), days)
                    rows = rows.filter(positions.is_valid())
                    numbers = self._hashes(rows) % counts[positions.drop_null().to_numpy()]
                    source = pa.repeat(pa.scalar(file["source"], pa.int32()), rows.num_rows)
                    rows = rows.append_column(SOURCE, source)
                    yield from rows.append_column(DESTINATION_FILE, pa.array(numbers.astype(np.int32))).to_batches()

    def _hashes(self, rows: pa.Table) -> U64Array:
        """A hash of each row's key. Anybody may know it, so its seed is no secret."""
        keys = key_columns(self.table)
        arrays = [rows.column(column.name).combine_chunks() for column in keys]
        return KeyHasher(keys, Seed(b"files of a date")).first(arrays)


def _bytes_by_date(dates: DeliveriesByDate, parent: Parent) -> dict[date, int]:
    """Estimate the bytes of each date: as many as its largest source has, because the sources share most keys."""
    found = {}
    for day, delivered in dates.items():
        of_deliveries = [int(sum(file.bytes_of_rows for file in dated.files)) for dated in delivered]
        found[day] = max(sum(file.size for file in parent.files_of(day)), *of_deliveries, 0)
    return found


class OutputPartitions(NamedTuple):
    """The number of files of each date, and the number of Spark tasks that write them."""

    file_counts: dict[date, int]
    task_count: int


def partition_dates(bytes_by_date: Mapping[date, int], file_bytes: int, core_count: int) -> OutputPartitions:
    """Return the partitions. `bytes_by_date`: about how large each date will be. `file_bytes`: the target file size.

    There are at most as many tasks as files. There are fewer if many files are small.
    """
    file_counts = {day: max(-(-size // file_bytes), 1) for day, size in bytes_by_date.items()}
    full_file_count = sum(bytes_by_date.values()) // file_bytes
    task_count = min(sum(file_counts.values()), max(full_file_count, core_count * TASKS_PER_CORE))
    return OutputPartitions(file_counts, max(1, task_count))


@dataclass(frozen=True)
class _RowWriter:
    """Writes the rows of Spark tasks. `newest_source`: for each date the highest number of a source that has it.

    A row whose key that source lacks is a survivor.
    """

    table: TableContract
    data_uri: str
    newest_source: dict[date, int]

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one task. Yield the records of its files."""
        rows = (some for batch in batches for some in self._retained(batch))
        for (day, _), of_file in groupby(rows, key=itemgetter(0)):
            counts = _FileCounts(self.table, day, self.newest_source[day])
            written = write_file(self.table, self.data_uri, day, "window", (counts.add(some) for _, some in of_file))
            assert written  # of each key in the file, one row is not surplus
            record = pa.array([pickle.dumps((written, counts))], pa.binary())
            yield pa.RecordBatch.from_arrays([record], schema=_RECORD_ARROW)

    def _retained(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
        """The rows of each output file, without survivors if these are deleted."""
        for output_file, rows in _split(batch):
            if self.table.absent_keys is Absent.DELETE:
                rows = rows.filter(pc.greater_equal(rows.column(NEWEST), self.newest_source[output_file[0]]))
            if rows.num_rows:
                yield output_file, rows


@dataclass
class _FileCounts:
    """Counts the rows of one file: `differing` by difference, and `surplus` rows by the number of their source."""

    table: TableContract
    day: date
    newest_source: int
    differing: Counter[Difference] = field(default_factory=Counter)
    surplus: Counter[int] = field(default_factory=Counter)
    examples: list[KeyExample] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch) -> pa.Table:
        """Count the rows, which have the helper columns. Return those to write: all except surplus rows."""
        surplus = rows.column(SURPLUS)
        if surplus.true_count:
            self.surplus.update(rows.filter(surplus).column(SOURCE).to_pylist())
            rows = rows.filter(pc.invert(surplus))
        self._count(Difference.NEW, pc.invert(rows.column(IN_PARENT)), rows)
        self._count(Difference.CHANGED, rows.column(CHANGED), rows)
        self._count(Difference.SURVIVOR, pc.less(rows.column(NEWEST), self.newest_source), rows)
        schema = arrow_schema(self.table.columns)
        return cast_table(pa.Table.from_batches([rows.select(schema.names)]), schema)

    def _count(self, difference: Difference, differs: pa.BooleanArray, rows: pa.RecordBatch) -> None:
        needed_examples = EXAMPLES_PER_DATE - self.differing[difference]
        self.differing[difference] += differs.true_count
        if differs.true_count and needed_examples > 0:
            some = rows.take(pc.indices_nonzero(differs)[:needed_examples])
            keys = key_texts(self.table, [some.column(column.name).to_pylist() for column in key_columns(self.table)])
            self.examples += [KeyExample(self.day, difference, key) for key in keys]


def _split(batch: pa.RecordBatch) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
    """Yield, for each output file in the batch, its date and number, and its rows."""
    if not batch.num_rows:
        return
    days = batch.column(DAY)
    day_numbers = days.cast(pa.int32()).to_numpy()
    files = batch.column(DESTINATION_FILE).to_numpy()
    cuts = np.flatnonzero((np.diff(day_numbers) != 0) | (np.diff(files) != 0)) + 1
    for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        yield (days[start].as_py(), int(files[start])), batch.slice(start, end - start)
