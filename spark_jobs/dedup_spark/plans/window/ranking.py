"""Ranks the rows of each key: which row wins, which rows are surplus, and whether the key is new or changed.

The rows to rank have the helper columns DAY, SOURCE and DESTINATION_FILE. The result has one winner for each key, and
the surplus rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from dedup_clone.contract.table import TableContract, UpdateIdMode
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.value_order import comparable_column

# Helper columns of rows. The writer reads HELPER_COLUMNS, and writes none of them. No column of a feed may have a slash
# in its name (`ColumnName` in the settings), so no column is overwritten.

# Date of a row.
DAY = "/day"

# Number of the source of a row: PARENT_SOURCE, or that of a delivery.
SOURCE = "/source"

# Number, within its date, of the file into which the row is written: a function of the key, so that equal keys are in
# one file.
DESTINATION_FILE = "/destination_file"

# Whether the row is surplus: another row of the same delivery and key wins against it. It is counted, but not written.
SURPLUS = "/surplus"

# The next three describe the row's key, whose winner is its one row that is written. The greatest number of a source
# that has the key:
NEWEST = "/newest"
# Whether the parent has the key:
IN_PARENT = "/in_parent"
# Whether the parent's values differ from the winner's:
CHANGED = "/changed"

HELPER_COLUMNS = (DAY, DESTINATION_FILE, SOURCE, SURPLUS, NEWEST, IN_PARENT, CHANGED)

# The next three are only used while the rows of a key are ranked. The row's rank; the winner has rank 1:
RANK = "/rank"
# The winner's values:
WINNER = "/winner"
# The lowest rank of a row that is not surplus and has other values than the winner:
FIRST_OTHER = "/first_other"


def _key_order(table: TableContract) -> list[str]:
    """Return the columns by which rows are sorted: date, output file, keys that are clustering columns, other keys."""
    clustered = [name for name in table.cluster_by if name in table.keys_of_date]
    return [DAY, DESTINATION_FILE, *dict.fromkeys([*clustered, *table.keys_of_date])]


def rank(rows: DataFrame, table: TableContract, mode: UpdateIdMode, task_count: int) -> DataFrame:
    """Return winners and surplus rows, with their declared columns and HELPER_COLUMNS.

    All rows of an output file are in one of `task_count` Spark tasks, sorted by date, file and clustering columns.
    """
    rows = rows.repartition(task_count, *_key_order(table)[:2])
    columns = [comparable_column(c, f.col(c.name)) for c in table.value_columns]
    values = f.struct(f.lit(0), *columns)  # with a constant, because a table may have no value column
    greatest_first = [f.col(table.snapshot_id_column).desc(), f.col(SOURCE).desc(), *[c.desc() for c in columns]]
    # These columns include the output file, which is the same for all rows of a key.
    order = Window.partitionBy(*_key_order(table)).orderBy(*greatest_first)
    whole_key = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = (
        rows.withColumn(RANK, f.row_number().over(order))
        .withColumn(SURPLUS, f.lag(SOURCE).over(order).eqNullSafe(f.col(SOURCE)))
        .withColumn(NEWEST, f.max(SOURCE).over(whole_key))
        .withColumn(IN_PARENT, f.min(SOURCE).over(whole_key) == PARENT_SOURCE)
        .withColumn(WINNER, f.first(values).over(whole_key))
    )
    differs = ~f.col(WINNER).eqNullSafe(values)
    ranked = ranked.withColumn(CHANGED, f.max((f.col(SOURCE) == PARENT_SOURCE) & differs).over(whole_key))
    if mode is UpdateIdMode.LAST_CHANGED:
        # The rows of a key, except surplus rows, are versions of one row, the newest first. The winner and the versions
        # after it, up to but not including the first with other values, form a run. The lowest update_id in this run is
        # that of the last change.
        is_version = ~f.col(SURPLUS)
        ranked = ranked.withColumn(FIRST_OTHER, f.min(f.when(is_version & differs, f.col(RANK))).over(whole_key))
        is_in_run = is_version & (f.col(FIRST_OTHER).isNull() | (f.col(RANK) < f.col(FIRST_OTHER)))
        id_in_run = f.when(is_in_run, f.col(table.snapshot_id_column))
        ranked = ranked.withColumn(table.snapshot_id_column, f.min(id_in_run).over(whole_key))
    ranked = ranked.where((f.col(RANK) == 1) | f.col(SURPLUS))
    names = [column.name for column in table.columns]
    return ranked.select(*names, *HELPER_COLUMNS).sortWithinPartitions(*_key_order(table)[:2], *table.cluster_by)
