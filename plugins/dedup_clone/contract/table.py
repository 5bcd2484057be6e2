"""The definition of one feed's table: columns, keys, layout, retention, options, and the columns of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
OWN_LABELS = "dedup_clone_"  # prefix of the keys of labels that this project sets


MAX_PRIMARY_KEY_COLUMNS = 16  # BigQuery's limit
MAX_RETENTION_DAYS = 3650  # the longest retention that a feed file may declare
# BigQuery's NUMERIC is DECIMAL(38, 9).
NUMERIC_SCALE = 9
NUMERIC_INTEGER_DIGITS = 29
NUMERIC_PRECISION = NUMERIC_INTEGER_DIGITS + NUMERIC_SCALE
NUMERIC_CONTEXT = Context(prec=NUMERIC_PRECISION)  # for arithmetic: by default Decimal rounds to 28 digits
NUMERIC_DIGITS = f"at most {NUMERIC_INTEGER_DIGITS} digits before and {NUMERIC_SCALE} after the point"


class ColumnMode(StrEnum):
    """BigQuery's modes of a column. A REPEATED column is an array."""

    NULLABLE = "NULLABLE"
    REQUIRED = "REQUIRED"
    REPEATED = "REPEATED"


class UpdateIdMode(StrEnum):
    """Whether a row's update id names the newest snapshot that contained the row, or the one that last changed it."""

    LAST_SEEN = "last_seen"
    LAST_CHANGED = "last_changed"


class Absent(StrEnum):
    """What becomes of the rows whose key, or of a date that, the newest snapshot lacks."""

    KEEP = "keep"
    DELETE = "delete"


class PartitionBy(StrEnum):
    """The time span of a partition. Files and checks of the data are by date in all cases."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True)
class Column:
    """One column. `type` is BigQuery's name of its type (INT64, STRING, STRUCT, …); only a STRUCT has `fields`."""

    name: str
    type: str
    mode: ColumnMode = ColumnMode.NULLABLE
    fields: tuple[Column, ...] = ()


def nullable(column: Column) -> Column:
    """The column with NULLABLE in place of REQUIRED, nested columns included: for tables whose rows may have NULL."""
    mode = ColumnMode.NULLABLE if column.mode is ColumnMode.REQUIRED else column.mode
    return Column(column.name, column.type, mode, tuple(nullable(field) for field in column.fields))


@dataclass(frozen=True)
class TableContract:
    """The columns in schema order, and the role of some of them.

    `keys` contains the partition column, so the same values of the other keys on two dates are two rows. A row's date
    is the value of the partition column, or that value's date in UTC.
    `snapshot_id_column` holds the update id. `retention_days` is the number of UTC days that the table retains, today
    included. `absent_keys`: of keys that the newest snapshot of their date lacks. `absent_dates`: of dates that the
    newest snapshot lacks; DELETE only if `absent_keys` is.
    """

    columns: tuple[Column, ...]
    partition_column: str
    snapshot_id_column: str
    keys: tuple[str, ...]
    cluster_by: tuple[str, ...]
    retention_days: int
    absent_keys: Absent = Absent.KEEP
    absent_dates: Absent = Absent.KEEP
    partition_by: PartitionBy = PartitionBy.DAY

    @property
    def date_type(self) -> str:
        """The type of the partition column: DATE, DATETIME or TIMESTAMP."""
        return self.column(self.partition_column).type

    @property
    def keys_of_date(self) -> tuple[str, ...]:
        """The keys that identify a row within its date: all but a DATE by which the table is partitioned.

        If the table has no other key, it is that date.
        """
        date_key = self.partition_column if self.date_type == "DATE" else None
        return tuple(name for name in self.keys if name != date_key) or self.keys

    @property
    def date_folder(self) -> str:
        """What the name of a date's folder begins with: the DATE column, or `date` if the column is a time."""
        return self.partition_column if self.date_type == "DATE" else "date"

    def columns_in_folders(self, *, date_folders: bool) -> set[str]:
        """The columns that files may lack, because the names of the files' folders have the values."""
        has_date = date_folders and self.date_type == "DATE"
        return {self.snapshot_id_column, *([self.partition_column] if has_date else [])}

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """All columns except the keys and `snapshot_id_column`."""
        return tuple(c for c in self.columns if c.name not in self.keys and c.name != self.snapshot_id_column)

    def partition_start(self, day: date) -> date:
        """The first date of the partition that has the rows of `day`."""
        return day.replace(day=1) if self.partition_by is PartitionBy.MONTH else day

    def oldest_day(self, today: date) -> date:
        """The oldest date that the table retains: a partition expires by its first date, with all its dates."""
        oldest = today - timedelta(days=self.retention_days - 1)
        if self.partition_start(oldest) == oldest:
            return oldest
        return (oldest.replace(day=1) + timedelta(days=32)).replace(day=1)

    def column(self, name: str) -> Column:
        """The top-level column with this name, which must exist."""
        return next(c for c in self.columns if c.name == name)


def column_paths(columns: Iterable[T], prefix: str = "") -> Iterator[tuple[str, T]]:
    """All columns, also nested ones, each with its path, such as `store.city`. `prefix`: begins each path.

    `T`: Column, or a feed file's model of it.
    """
    column: Any
    for column in columns:
        path = f"{prefix}{column.name}"
        yield path, column
        yield from column_paths(column.fields, f"{path}.")


def float64_columns(columns: Iterable[Column], prefix: str = "") -> list[str]:
    """The paths of columns and fields of type FLOAT64, whose digits an export loses: it writes FLOAT, of 32 bits.

    BigQuery's page "Export table data to Cloud Storage", Parquet export details. `prefix`: begins each path.
    """
    return [path for path, column in column_paths(columns, prefix) if column.type == "FLOAT64"]


class ChangeType(StrEnum):
    """How the row of a key differs from the key's row in the parent. If several types apply, the last one below counts.

    DELETED occurs only with `absent_keys` DELETE. RETURNED and MISSING occur only if update ids tell which keys the
    newest snapshot of a date contains (`DateEntry.newest_snapshot`).
    """

    NEW = "new"  # the parent has no row of the key
    CHANGED = "changed"  # the parent's row has other values or, in mode last_changed, another update id
    RETURNED = "returned"  # the newest snapshot has the key; the parent's newest snapshot lacked it
    MISSING = "missing"  # the newest snapshot lacks the key; the parent's newest snapshot had it. The row is retained
    DELETED = "deleted"  # the newest snapshot lacks the key, and the parent's row is gone


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
