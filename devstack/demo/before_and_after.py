"""Compares a table before and after a publish, row by row."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from devstack.producer.demo_feeds import KEYS, SNAPSHOT_ID, VALUE

Key = tuple[Any, ...]


class RowChange(StrEnum):
    """How a publish has changed a row of the table. SURVIVOR: it stays, but its key is missing in the snapshot."""

    CHANGED = "changed"
    NEW = "new"
    SURVIVOR = "kept-missing"
    EQUAL = "equal"


@dataclass(frozen=True)
class Row:
    key: Key
    value: int
    snapshot_id: int


@dataclass(frozen=True)
class ComparedRow:
    """A row after the publish, and the row that its key had before; None if there was none."""

    change: RowChange
    before: Row | None
    after: Row


def rows(table: pa.Table) -> list[Row]:
    """The rows of the table, in the order of their keys."""
    found = [Row(tuple(row[k] for k in KEYS), row[VALUE], row[SNAPSHOT_ID]) for row in table.to_pylist()]
    return sorted(found, key=lambda row: row.key)


def compare_rows(before: pa.Table, after: pa.Table, snapshot_id: int) -> list[ComparedRow]:
    """The rows of the table after the publish of `snapshot_id`, in the order of their keys, each with its change."""
    earlier = {row.key: row for row in rows(before)}
    return [
        ComparedRow(_change_of(earlier.get(row.key), row, snapshot_id), earlier.get(row.key), row)
        for row in rows(after)
    ]


def _change_of(before: Row | None, after: Row, snapshot_id: int) -> RowChange:
    if before is None:
        return RowChange.NEW
    if after.snapshot_id != snapshot_id:
        return RowChange.SURVIVOR
    return RowChange.EQUAL if before.value == after.value else RowChange.CHANGED
