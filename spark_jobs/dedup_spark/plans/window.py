"""Plan `window`: the published method's ROW_NUMBER over the union of all sources. The oracle of every other plan."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from dedup_spark.marks import MARKS
from dedup_spark.ranking import key_order, rank
from dedup_spark.sources import Sources


def resolve(sources: Sources) -> DataFrame:
    table = sources.table
    rows = rank(sources.sliced_union(), table, sources.mode)
    order = [*key_order(table)[:2], *table.cluster_by]
    return rows.select([f.col(c.name) for c in table.columns] + [f.col(m) for m in MARKS]).sortWithinPartitions(*order)
