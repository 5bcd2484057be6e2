"""Plan `antijoin`: a row of the parent stays if the deliveries lack its key, or if it outranks their rows of the key.

Dates of plan `rewrite` that cannot be streamed are written in the same way.

The rows of all deliveries are ranked first, so that one row of each key is left. One outer join of these rows with the
parent's by key then finds survivors (the anti-join), new keys and changed values in one pass.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.dataframe.checked_output import checked_output
from dedup_spark.plans.dataframe.helper_columns import (
    CHANGED,
    DESTINATION_FILE,
    IN_PARENT,
    NEWEST,
    READ_FINGERPRINT,
    SOURCE,
    SURPLUS,
    VERSIONS_EQUAL,
)
from dedup_spark.plans.dataframe.row_ranking import key_order, rank
from dedup_spark.plans.dataframe.sources import Sources
from dedup_spark.value_order import comparable_column

_NEW = "new"
_OLD = "old"


def deduplicate(sources: Sources) -> DataFrame:
    """Return the rows to write and the surplus rows, with helper columns, in the order of the output files."""
    table = sources.table
    deliveries, parent = sources.repartitioned_deliveries(), sources.repartitioned_parent()
    if deliveries is None:
        rows = _unchanged(sources.repartitioned_union())
    else:
        rows = rank(deliveries, table, sources.mode)
        if parent is not None:
            rows = _join(rows, parent, table, sources.mode)
    return checked_output(rows, table)


def _unchanged(parent: DataFrame) -> DataFrame:
    """The parent's rows with helper columns, for dates that no delivery has."""
    return (
        parent.withColumn(SURPLUS, f.lit(False))
        .withColumn(NEWEST, f.lit(PARENT_SOURCE))
        .withColumn(IN_PARENT, f.lit(True))
        .withColumn(CHANGED, f.lit(False))
    )


def _join(ranked: DataFrame, parent: DataFrame, table: TableContract, mode: UpdateIdMode) -> DataFrame:
    """The winners among the deliveries' `ranked` rows and the parent's, and the surplus rows, with helper columns."""
    new, old = ranked.alias(_NEW), parent.alias(_OLD)
    condition = ~_column(_NEW, SURPLUS)  # a surplus row matches nothing, but stays in the result to be counted
    for name in key_order(table):
        condition = condition & (_column(_NEW, name) == _column(_OLD, name))
    is_delivered, is_in_parent = _column(_NEW, SOURCE).isNotNull(), _column(_OLD, SOURCE).isNotNull()
    snapshot_id = table.snapshot_id_column
    outranks = is_delivered & (~is_in_parent | (_column(_NEW, snapshot_id) >= _column(_OLD, snapshot_id)))
    differs = ~_values(_NEW, table).eqNullSafe(_values(_OLD, table))
    delivered = {c.name: _column(_NEW, c.name) for c in table.columns}
    if mode is UpdateIdMode.LAST_CHANGED:
        is_as_before = is_in_parent & _column(_NEW, VERSIONS_EQUAL) & ~differs
        delivered[snapshot_id] = f.when(is_as_before, _column(_OLD, snapshot_id)).otherwise(_column(_NEW, snapshot_id))
    return new.join(old, condition, "full_outer").select(
        *[f.when(outranks, delivered[c.name]).otherwise(_column(_OLD, c.name)).alias(c.name) for c in table.columns],
        f.when(outranks, _column(_NEW, READ_FINGERPRINT))
        .otherwise(_column(_OLD, READ_FINGERPRINT))
        .alias(READ_FINGERPRINT),
        f.coalesce(_column(_NEW, DESTINATION_FILE), _column(_OLD, DESTINATION_FILE)).alias(DESTINATION_FILE),
        f.coalesce(_column(_NEW, SOURCE), _column(_OLD, SOURCE)).alias(SOURCE),
        f.coalesce(_column(_NEW, SURPLUS), f.lit(False)).alias(SURPLUS),
        f.coalesce(_column(_NEW, NEWEST), f.lit(PARENT_SOURCE)).alias(NEWEST),
        is_in_parent.alias(IN_PARENT),
        (is_delivered & is_in_parent & outranks & differs).alias(CHANGED),
    )


def _column(rows: str, name: str) -> Column:
    return f.col(f"{rows}.`{name}`")


def _values(rows: str, table: TableContract) -> Column:
    return f.struct(f.lit(0), *[comparable_column(c, _column(rows, c.name)) for c in table.value_columns])
