"""What a publish did to each row: the table before it and after it, side by side by key."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from devstack.producer.schema import KEYS, SNAPSHOT_ID, VALUE

Key = tuple[Any, ...]


class Kind(StrEnum):
    CHANGED = "changed"
    NEW = "new"
    KEPT = "kept-missing"
    EQUAL = "equal"


@dataclass(frozen=True)
class Row:
    key: Key
    value: int
    snapshot_id: int


@dataclass(frozen=True)
class MarkedRow:
    """One row of the table after, and what it was before (None: it was not there)."""

    kind: Kind
    before: Row | None
    after: Row


def rows(table: pa.Table) -> list[Row]:
    """The table's rows in key order."""
    found = [Row(tuple(row[k] for k in KEYS), row[VALUE], row[SNAPSHOT_ID]) for row in table.to_pylist()]
    return sorted(found, key=lambda row: row.key)


def mark(before: pa.Table, after: pa.Table, snapshot_id: int) -> list[MarkedRow]:
    """Rows of the table after `snapshot_id` was published, in key order, each with its kind."""
    earlier = {row.key: row for row in rows(before)}
    return [MarkedRow(_kind(earlier.get(row.key), row, snapshot_id), earlier.get(row.key), row) for row in rows(after)]


def _kind(before: Row | None, after: Row, snapshot_id: int) -> Kind:
    if before is None:
        return Kind.NEW
    if after.snapshot_id != snapshot_id:
        return Kind.KEPT
    return Kind.EQUAL if before.value == after.value else Kind.CHANGED
