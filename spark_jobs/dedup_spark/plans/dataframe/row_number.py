"""Plan `window`: ROW_NUMBER over the union of all sources, the reference method. The oracle of every other plan."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from dedup_spark.plans.dataframe.helper_columns import HELPER_COLUMNS
from dedup_spark.plans.dataframe.row_ranking import key_order, rank
from dedup_spark.plans.dataframe.sources import Sources


def deduplicate(sources: Sources) -> DataFrame:
    """Return the rows to write, in the order of the output files, and the surplus rows, which are only counted."""
    table = sources.table
    rows = rank(sources.repartitioned_union(), table, sources.mode)
    columns = [f.col(name) for name in (*(column.name for column in table.columns), *HELPER_COLUMNS)]
    return rows.select(columns).sortWithinPartitions(*key_order(table)[:2], *table.cluster_by)
