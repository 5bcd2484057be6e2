"""The contract of one feed's table: columns, keys, partitioning, retention."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnMode(StrEnum):
    NULLABLE = "NULLABLE"
    REQUIRED = "REQUIRED"
    REPEATED = "REPEATED"


class UpdateIdMode(StrEnum):
    """What a row's update_id says: the newest snapshot that contained it, or in which its values changed."""

    LAST_SEEN = "last_seen"
    LAST_CHANGED = "last_changed"


@dataclass(frozen=True)
class Column:
    """One column; `type` is BigQuery's name (INT64, STRING, DATE, …, STRUCT); `fields` only for STRUCT."""

    name: str
    type: str
    mode: ColumnMode = ColumnMode.NULLABLE
    fields: tuple[Column, ...] = ()


@dataclass(frozen=True)
class TableContract:
    """Columns in schema order, and which of them are keys, the partition and the snapshot id.

    `keys` contains the partition column: the same key in two dates is two rows. Value columns are all others but
    `snapshot_id_column`. `retention_days` is the number of UTC days, today included, that are kept.
    """

    columns: tuple[Column, ...]
    partition_column: str
    snapshot_id_column: str
    keys: tuple[str, ...]
    cluster_by: tuple[str, ...]
    retention_days: int

    @property
    def value_columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.name not in self.keys and c.name != self.snapshot_id_column)

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)
