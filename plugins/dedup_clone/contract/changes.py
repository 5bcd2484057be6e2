"""The rows by which a generation differs from its parent: kinds of change, and the columns of `FEED_changes`."""

from __future__ import annotations

from enum import StrEnum

from dedup_clone.contract.table import Column, ColumnMode, TableContract, nullable


class ChangeType(StrEnum):
    """How the row of a key differs from the key's row in the parent. If several types apply, the last one below counts.

    RETURNED and MISSING occur only if update ids tell which keys the newest snapshot of a date contains
    (`DateEntry.newest_snapshot`).
    """

    NEW = "new"  # the parent has no row of the key
    CHANGED = "changed"  # the parent's row has other values or, in mode last_changed, another update id
    RETURNED = "returned"  # the newest snapshot has the key; the parent's newest snapshot lacked it
    MISSING = "missing"  # the newest snapshot lacks the key; the parent's newest snapshot had it. The row is retained


PUBLISH_DATE = "publish_date"
GENERATION = "generation"
SNAPSHOT_ID = "snapshot_id"
CHANGE_TYPE = "change_type"
OLD_ROW = "old_row"
NEW_ROW = "new_row"
# The columns that every table of changes has. Its other columns are the feed's keys.
FIXED_COLUMNS = (PUBLISH_DATE, GENERATION, SNAPSHOT_ID, CHANGE_TYPE, OLD_ROW, NEW_ROW)


def changes_table_contract(table: TableContract, retention_days: int) -> TableContract:
    """The contract of `FEED_changes`, the table with one row for each change of the feed's `table`.

    The key columns have the same names as in `table`. `retention_days`: how long `FEED_changes` retains its rows.
    """
    row_fields = tuple(nullable(column) for column in table.columns)
    return TableContract(
        columns=(
            Column(PUBLISH_DATE, "DATE", ColumnMode.REQUIRED),
            Column(GENERATION, "INT64", ColumnMode.REQUIRED),
            Column(SNAPSHOT_ID, "INT64", ColumnMode.REQUIRED),
            Column(CHANGE_TYPE, "STRING", ColumnMode.REQUIRED),
            *(nullable(table.column(name)) for name in table.keys),
            Column(OLD_ROW, "STRUCT", fields=row_fields),
            Column(NEW_ROW, "STRUCT", fields=row_fields),
        ),
        partition_column=PUBLISH_DATE,
        snapshot_id_column=SNAPSHOT_ID,
        keys=(PUBLISH_DATE, GENERATION, *table.keys),
        cluster_by=(GENERATION,),
        retention_days=retention_days,
    )
