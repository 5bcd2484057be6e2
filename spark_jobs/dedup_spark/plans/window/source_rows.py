"""Reads the rows of the applied deliveries and of the parent, with the declared types and the number of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.absent_columns import complete_batch
from dedup_spark.arrow_cast import cast_table, nullable_type
from dedup_spark.column_types import arrow_type, spark_schema
from dedup_spark.comparison.key_reader import group_rows_per_batch
from dedup_spark.execution.fan_out import TASKS_PER_CORE
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import PARENT_SOURCE, Parent
from dedup_spark.plans.window.ranking import SOURCE
from dedup_spark.storage.parquet_files import open_parquet


def read_sources(
    session: SparkSession,
    table: TableContract,
    applied: tuple[ValidatedDelivery, ...],
    parent: Parent,
    dates: set[date],
) -> DataFrame:
    """Return the rows of these dates from all deliveries and from the parent."""
    files = [(parent.uri(file), PARENT_SOURCE) for file in parent.files if file.date in dates]
    for number, validated in enumerate(applied, start=PARENT_SOURCE + 1):
        with_dates = (file for file in validated.files if not dates.isdisjoint(file.rows_by_date))
        files += [(file.file.uri, number) for file in with_dates]
    context = session.sparkContext
    task_count = min(len(files), context.defaultParallelism * TASKS_PER_CORE)
    tasks = session.createDataFrame(context.parallelize(files, task_count), "uri string, source int")
    schema = StructType([*spark_schema(table.columns), StructField(SOURCE, IntegerType())])
    return tasks.mapInArrow(_FileReader(table, frozenset(dates)).read, schema)


@dataclass(frozen=True)
class _FileReader:
    """Reads the files of a Spark task. Spark itself reads no Parquet: each of its versions reads another set of files.

    Spark 3.5.3, for example, returns wrong texts from the encoding DELTA_LENGTH_BYTE_ARRAY (SPARK-52240).
    """

    table: TableContract
    dates: frozenset[date]

    def read(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files, with the declared columns and the number of the source."""
        schema = pa.schema([(column.name, nullable_type(arrow_type(column))) for column in self.table.columns])
        days = pa.array(sorted(self.dates), pa.date32())
        for file in (row for task in tasks for row in task.to_pylist()):
            for batch in self._batches(file["uri"]):
                complete = complete_batch(batch, self.table.columns).select(schema.names)
                rows = cast_table(pa.Table.from_batches([complete]), schema)
                rows = rows.filter(pc.is_in(rows.column(self.table.partition_column), days))
                source = pa.repeat(pa.scalar(file["source"], pa.int32()), rows.num_rows)
                yield from rows.append_column(SOURCE, source).to_batches()

    def _batches(self, uri: str) -> Iterator[pa.RecordBatch]:
        with storage.open_input(uri) as stream, open_parquet(stream) as file:
            for group in range(file.num_row_groups):
                batch_rows = group_rows_per_batch(file, group, [column.name for column in self.table.columns])
                yield from file.iter_batches(batch_rows, row_groups=[group], use_threads=False)
