"""What a plan works on: the rows of the applied deliveries and of the parent, read as declared and marked by source."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.column_types import spark_schema
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.marks import SOURCE, STATE
from dedup_spark.parent import Parent
from dedup_spark.read_files import read_files
from dedup_spark.slices import Slices, with_bucket


@dataclass(frozen=True)
class Sources:
    """Rows marked by source; each method brings equal keys into one task, by one shuffle.

    `deliveries` is None where no delivery has the dates, `state` where the parent has no row of them.
    """

    table: TableContract
    mode: UpdateIdMode
    slices: Slices
    deliveries: DataFrame | None
    state: DataFrame | None

    def sliced_union(self) -> DataFrame:
        present = [rows for rows in (self.state, self.deliveries) if rows is not None]
        return with_bucket(reduce(DataFrame.unionByName, present), self.table, self.slices)

    def sliced_deliveries(self) -> DataFrame | None:
        return None if self.deliveries is None else with_bucket(self.deliveries, self.table, self.slices)

    def sliced_state(self) -> DataFrame | None:
        return None if self.state is None else with_bucket(self.state, self.table, self.slices)


def delivered_rows(
    session: SparkSession, table: TableContract, applied: tuple[ExaminedDelivery, ...], dates: set[date]
) -> DataFrame | None:
    """Rows of the given dates, whichever delivery has them; None when there are none."""
    parts = [
        part.withColumn(SOURCE, f.lit(number))
        for number, examined in enumerate(applied, start=STATE + 1)
        for part in _by_file_schema(session, table, examined, dates)
    ]
    return reduce(DataFrame.unionByName, parts) if parts else None


def _by_file_schema(
    session: SparkSession, table: TableContract, examined: ExaminedDelivery, dates: set[date]
) -> Iterable[DataFrame]:
    """One reader per physical schema: Spark 3.5 widens no types while it reads, a cast afterwards does."""
    paths: defaultdict[str, list[str]] = defaultdict(list)
    for inspected in examined.files:
        if not dates.isdisjoint(inspected.rows_by_date):
            paths[inspected.spark_schema].append(inspected.file.uri)
    everything = dates.issuperset(examined.rows_by_date)
    for schema, uris in paths.items():
        rows = read_files(session, StructType.fromJson(json.loads(schema)), uris)
        if not everything:
            rows = rows.where(f.col(table.partition_column).isin(sorted(dates)))
        declared = spark_schema(table.columns)
        yield rows.select([f.col(c.name).cast(c.dataType).alias(c.name) for c in declared.fields])


def state_rows(session: SparkSession, table: TableContract, parent: Parent, dates: set[date]) -> DataFrame | None:
    uris = [parent.uri(file) for file in parent.files if file.date in dates]
    if not uris:
        return None
    return read_files(session, spark_schema(table.columns), uris).withColumn(SOURCE, f.lit(STATE))
