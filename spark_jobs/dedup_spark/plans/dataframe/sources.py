"""Reads the rows of the applied deliveries and of the parent, with the declared types and the number of the source."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.column_types import spark_schema
from dedup_spark.execution.session import read_files
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import PARENT_SOURCE, Parent
from dedup_spark.plans.dataframe.checked_output import with_fingerprint
from dedup_spark.plans.dataframe.helper_columns import SOURCE
from dedup_spark.plans.dataframe.output_partitions import OutputPartitions, repartition


@dataclass(frozen=True)
class Sources:
    """The rows of all sources. Each method returns rows after one shuffle that brings equal keys into one task.

    `deliveries` is None if no delivery has any of the dates; `parent` is None if the parent has none of them.
    """

    table: TableContract
    mode: UpdateIdMode
    partitions: OutputPartitions
    deliveries: DataFrame | None
    parent: DataFrame | None

    def repartitioned_union(self) -> DataFrame:
        present = [rows for rows in (self.parent, self.deliveries) if rows is not None]
        return repartition(reduce(DataFrame.unionByName, present), self.table, self.partitions)

    def repartitioned_deliveries(self) -> DataFrame | None:
        return None if self.deliveries is None else repartition(self.deliveries, self.table, self.partitions)

    def repartitioned_parent(self) -> DataFrame | None:
        return None if self.parent is None else repartition(self.parent, self.table, self.partitions)


def delivered_rows(
    session: SparkSession, table: TableContract, applied: tuple[ValidatedDelivery, ...], dates: set[date]
) -> DataFrame | None:
    """Return the rows of these dates from all deliveries; None if no delivery has any of them."""
    frames = [
        with_fingerprint(frame, table).withColumn(SOURCE, f.lit(number))
        for number, validated in enumerate(applied, start=PARENT_SOURCE + 1)
        for frame in _by_file_schema(session, table, validated, dates)
    ]
    return reduce(DataFrame.unionByName, frames) if frames else None


def _by_file_schema(
    session: SparkSession, table: TableContract, validated: ValidatedDelivery, dates: set[date]
) -> Iterable[DataFrame]:
    """Yield one DataFrame for each schema of files. Spark 3.5 cannot widen types while it reads, so a cast follows."""
    paths: defaultdict[str, list[str]] = defaultdict(list)
    for file in validated.files:
        if not dates.isdisjoint(file.rows_by_date):
            paths[file.spark_schema].append(file.file.uri)
    has_all_dates = dates.issuperset(validated.rows_by_date)
    for schema, uris in paths.items():
        rows = read_files(session, StructType.fromJson(json.loads(schema)), uris)
        if not has_all_dates:
            rows = rows.where(f.col(table.partition_column).isin(sorted(dates)))
        declared = spark_schema(table.columns)
        yield rows.select([f.col(c.name).cast(c.dataType).alias(c.name) for c in declared.fields])


def parent_rows(session: SparkSession, table: TableContract, parent: Parent, dates: set[date]) -> DataFrame | None:
    """Return the parent's rows of these dates; None if it has none of them."""
    uris = [parent.uri(file) for file in parent.files if file.date in dates]
    if not uris:
        return None
    former = {column.name: column for column in parent.columns}
    # Types are widened by the cast below, because Spark 3.5 cannot do it while it reads. A STRUCT is read as declared:
    # it can only have got new fields, which Spark reads as NULL.
    columns_to_read = tuple(c if c.fields else replace(former.get(c.name, c), mode=c.mode) for c in table.columns)
    declared = spark_schema(table.columns)
    rows = read_files(session, spark_schema(columns_to_read), uris)
    if columns_to_read != table.columns:
        rows = rows.select([f.col(c.name).cast(c.dataType).alias(c.name) for c in declared.fields])
    return with_fingerprint(rows, table).withColumn(SOURCE, f.lit(PARENT_SOURCE))
