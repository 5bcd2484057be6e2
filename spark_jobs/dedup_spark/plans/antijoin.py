"""Plan `antijoin`: rows of the parent stay where the deliveries lack their key, or where they outrank them.

The deliveries are ranked among themselves first. One outer join by key then finds the survivors (the anti-join), the
new keys and the changed values in one pass. In: sources. Out: marked rows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.marks import BUCKET, CHANGED, IN_STATE, MARKS, NEWEST, SOURCE, STATE, SURPLUS
from dedup_spark.ranking import UNBROKEN, key_order, rank
from dedup_spark.sources import Sources

_NEW = "new"
_OLD = "old"


def resolve(sources: Sources) -> DataFrame:
    table = sources.table
    columns = [c.name for c in table.columns]
    deliveries, state = sources.sliced_deliveries(), sources.sliced_state()
    if deliveries is None:
        rows = _untouched(sources.sliced_union())
    else:
        rows = rank(deliveries, table, sources.mode)
        if state is not None:
            rows = _join(rows, state, table, sources.mode)
    order = [*key_order(table)[:2], *table.cluster_by]
    return rows.select(*columns, *MARKS).sortWithinPartitions(*order)


def _untouched(state: DataFrame) -> DataFrame:
    return (
        state.withColumn(SURPLUS, f.lit(False))
        .withColumn(NEWEST, f.lit(STATE))
        .withColumn(IN_STATE, f.lit(True))
        .withColumn(CHANGED, f.lit(False))
    )


def _join(ranked: DataFrame, state: DataFrame, table: TableContract, mode: UpdateIdMode) -> DataFrame:
    keys = key_order(table)
    new, old = ranked.alias(_NEW), state.alias(_OLD)
    same_key = [_of(_NEW, name) == _of(_OLD, name) for name in keys]
    condition = ~_of(_NEW, SURPLUS)  # a surplus row meets no state: it passes, to be counted
    for equal in same_key:
        condition = condition & equal
    delivered, kept = _of(_NEW, SOURCE).isNotNull(), _of(_OLD, SOURCE).isNotNull()
    snapshot_id = table.snapshot_id_column
    outranks = delivered & (~kept | (_of(_NEW, snapshot_id) >= _of(_OLD, snapshot_id)))
    differs = ~_values(_NEW, table).eqNullSafe(_values(_OLD, table))
    taken = {c.name: _of(_NEW, c.name) for c in table.columns}
    if mode is UpdateIdMode.LAST_CHANGED:
        as_before = kept & _of(_NEW, UNBROKEN) & ~differs
        taken[snapshot_id] = f.when(as_before, _of(_OLD, snapshot_id)).otherwise(_of(_NEW, snapshot_id))
    return new.join(old, condition, "full_outer").select(
        *[f.when(outranks, taken[c.name]).otherwise(_of(_OLD, c.name)).alias(c.name) for c in table.columns],
        f.coalesce(_of(_NEW, BUCKET), _of(_OLD, BUCKET)).alias(BUCKET),
        f.coalesce(_of(_NEW, SOURCE), _of(_OLD, SOURCE)).alias(SOURCE),
        f.coalesce(_of(_NEW, SURPLUS), f.lit(False)).alias(SURPLUS),
        f.coalesce(_of(_NEW, NEWEST), f.lit(STATE)).alias(NEWEST),
        kept.alias(IN_STATE),
        (delivered & kept & outranks & differs).alias(CHANGED),
    )


def _of(side: str, name: str) -> Column:
    return f.col(f"{side}.`{name}`")


def _values(side: str, table: TableContract) -> Column:
    return f.struct(f.lit(0), *[_of(side, c.name) for c in table.value_columns])
