"""Plan `window`: ROW_NUMBER over the rows of all deliveries and the parent. Tests compare all other plans with it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from dedup_spark.plans.dataframe.checked_output import checked_output
from dedup_spark.plans.dataframe.row_ranking import rank
from dedup_spark.plans.dataframe.sources import Sources


def deduplicate(sources: Sources) -> DataFrame:
    """Return the rows to write, in the order of the output files, and the surplus rows, which are only counted."""
    table = sources.table
    return checked_output(rank(sources.repartitioned_union(), table, sources.mode), table)
