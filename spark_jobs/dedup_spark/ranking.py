"""Precedence of rows: which row of a key wins, which lost as a tie, and what became of the key.

In: rows with source and bucket marks, equal keys in one task. Out: one winner per key, and surplus rows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.marks import BUCKET, CHANGED, IN_STATE, NEWEST, SOURCE, STATE, SURPLUS

_RANK = "_rank"
_WINNER = "_winner"
_FIRST_OTHER = "_first_other"

# Whether a key's winner equals all its other versions: what came before, outside these rows, may then equal it too.
UNBROKEN = "_unbroken"


def key_order(table: TableContract) -> list[str]:
    """Date, bucket, then the keys with the clustering columns first: rows leave a plan in the order of writing."""
    rest = [name for name in table.keys if name != table.partition_column]
    clustered = [name for name in table.cluster_by if name in rest]
    return [table.partition_column, BUCKET, *dict.fromkeys([*clustered, *rest])]


def values(table: TableContract) -> Column:
    """All value columns as one comparable value; a constant when the keys are all there is."""
    return f.struct(f.lit(0), *[f.col(c.name) for c in table.value_columns])


def rank(rows: DataFrame, table: TableContract, mode: UpdateIdMode) -> DataFrame:
    """Adds the marks of winners and keeps winners and surplus rows.

    Spark's descending order is the contract's: NULL last, NaN above all numbers, -0.0 equal to 0.0, text and bytes
    unsigned, arrays and structs element by element.
    """
    greatest_first = [
        f.col(table.snapshot_id_column).desc(),
        f.col(SOURCE).desc(),
        *[f.col(c.name).desc() for c in table.value_columns],
    ]
    order = Window.partitionBy(*key_order(table)).orderBy(*greatest_first)
    whole_key = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = (
        rows.withColumn(_RANK, f.row_number().over(order))
        .withColumn(SURPLUS, f.lag(SOURCE).over(order).eqNullSafe(f.col(SOURCE)))
        .withColumn(NEWEST, f.max(SOURCE).over(whole_key))
        .withColumn(IN_STATE, f.min(SOURCE).over(whole_key) == STATE)
        .withColumn(_WINNER, f.first(values(table)).over(whole_key))
    )
    differs = ~f.col(_WINNER).eqNullSafe(values(table))
    ranked = ranked.withColumn(CHANGED, f.max((f.col(SOURCE) == STATE) & differs).over(whole_key))
    if mode is UpdateIdMode.LAST_CHANGED:
        version = ~f.col(SURPLUS)
        ranked = ranked.withColumn(_FIRST_OTHER, f.min(f.when(version & differs, f.col(_RANK))).over(whole_key))
        unbroken = f.col(_FIRST_OTHER).isNull()
        since = f.when(version & (unbroken | (f.col(_RANK) < f.col(_FIRST_OTHER))), f.col(table.snapshot_id_column))
        ranked = ranked.withColumn(UNBROKEN, unbroken)
        ranked = ranked.withColumn(table.snapshot_id_column, f.min(since).over(whole_key))
    return ranked.where((f.col(_RANK) == 1) | f.col(SURPLUS))
