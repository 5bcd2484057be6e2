"""Ranks the rows of each key: which row wins, which rows are surplus, and whether the key is new or changed.

In: rows with the columns SOURCE and OUTPUT_FILE, equal keys in one task. Out: one winner for each key, surplus rows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.dataframe.helper_columns import (
    CHANGED,
    FIRST_OTHER,
    IN_PARENT,
    NEWEST,
    OUTPUT_FILE,
    RANK,
    SOURCE,
    SURPLUS,
    UNBROKEN,
    WINNER,
)
from dedup_spark.value_order import comparable_column


def key_order(table: TableContract) -> list[str]:
    """Date, output file, then the keys, clustering columns first: the order in which rows are written."""
    rest = [name for name in table.keys if name != table.partition_column]
    clustered = [name for name in table.cluster_by if name in rest]
    return [table.partition_column, OUTPUT_FILE, *dict.fromkeys([*clustered, *rest])]


def values(table: TableContract) -> Column:
    """All value columns as one comparable value; a constant where the table has none."""
    return f.struct(f.lit(0), *_comparable_values(table))


def _comparable_values(table: TableContract) -> list[Column]:
    return [comparable_column(c, f.col(c.name)) for c in table.value_columns]


def rank(rows: DataFrame, table: TableContract, mode: UpdateIdMode) -> DataFrame:
    """Return winners, with the helper columns that describe their keys, and surplus rows."""
    greatest_first = [
        f.col(table.snapshot_id_column).desc(),
        f.col(SOURCE).desc(),
        *[value.desc() for value in _comparable_values(table)],
    ]
    order = Window.partitionBy(*key_order(table)).orderBy(*greatest_first)
    whole_key = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = (
        rows.withColumn(RANK, f.row_number().over(order))
        .withColumn(SURPLUS, f.lag(SOURCE).over(order).eqNullSafe(f.col(SOURCE)))
        .withColumn(NEWEST, f.max(SOURCE).over(whole_key))
        .withColumn(IN_PARENT, f.min(SOURCE).over(whole_key) == PARENT_SOURCE)
        .withColumn(WINNER, f.first(values(table)).over(whole_key))
    )
    differs = ~f.col(WINNER).eqNullSafe(values(table))
    ranked = ranked.withColumn(CHANGED, f.max((f.col(SOURCE) == PARENT_SOURCE) & differs).over(whole_key))
    if mode is UpdateIdMode.LAST_CHANGED:
        # The rows of a key, without surplus rows, are versions of one row. Going back from the newest (the winner), a
        # run of versions has the same values. The lowest update_id in this run is that of the last change.
        is_version = ~f.col(SURPLUS)
        ranked = ranked.withColumn(FIRST_OTHER, f.min(f.when(is_version & differs, f.col(RANK))).over(whole_key))
        is_unbroken = f.col(FIRST_OTHER).isNull()
        is_in_run = is_version & (is_unbroken | (f.col(RANK) < f.col(FIRST_OTHER)))
        id_in_run = f.when(is_in_run, f.col(table.snapshot_id_column))
        ranked = ranked.withColumn(UNBROKEN, is_unbroken)
        ranked = ranked.withColumn(table.snapshot_id_column, f.min(id_in_run).over(whole_key))
    return ranked.where((f.col(RANK) == 1) | f.col(SURPLUS))
