"""Computes, in plain Python, the rows that a table must have after a series of publishes: the oracle.

It shares no code with the engines. `OracleState` is the table's content after some publishes; its method `apply` gives
the content after one more. A row is a dict of values by column name. The rules are those of docs/deliver-snapshots.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class OracleTable:
    """The table's columns by their role. `value_columns`: all but keys and snapshot id, in schema order."""

    partition_column: str
    snapshot_id_column: str
    keys: tuple[str, ...]
    value_columns: tuple[str, ...]

    def day(self, row: Row) -> date:
        """The row's date. Times are in UTC."""
        value: date = row[self.partition_column]
        return value.date() if isinstance(value, datetime) else value

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.keys)

    def contents(self, row: Row) -> list[Any]:
        """The row's values in all value columns, in the form of `ordered`."""
        return [ordered(row[name]) for name in self.value_columns]


@dataclass(frozen=True)
class OracleChange:
    """A change of one row by a publish. `kind`: new, changed, missing, returned or deleted.

    `old`: None for a new row. `new`: None for a deleted row.
    """

    key: Key
    kind: str
    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class OracleDelivery:
    """The rows of one delivery, and the id of its snapshot."""

    snapshot_id: int
    rows: Sequence[Row]


@dataclass
class DateCounts:
    """The counts that the manifest must have for a date. Only dates with rows in an applied delivery are counted.

    `rows`: all rows of the date. `ties`: the surplus rows of its deliveries. If keys are deleted, only the delivery
    counts that the date has then, and a date that keeps its rows is not counted.
    """

    rows: int = 0
    new_keys: int = 0
    changed: int = 0
    survivors: int = 0
    ties: int = 0
    deleted: int = 0


@dataclass
class OracleState:
    """The content of the table after some publishes.

    `last_changed`: whether the feed has mode `last_changed`. `rows`: the table's row for each key. `counts`: those of
    the last publish, by date. `dropped`: the number of expired rows that the last publish dropped. `newest`: the newest
    snapshot of each date; a date is absent if the ids of its rows do not tell which rows that snapshot contains, and
    if it has no rows, unless these were erased from a table in which an older snapshot must not fill the date.
    `erased`: the keys that no delivery brings back. `deletes_keys`, `deletes_dates`: whether keys and dates are deleted
    that the newest snapshot lacks. `deleted_dates`: the dates that the last publish deleted, with their rows.
    `newest_id`: the newest snapshot that was published whole. `has_deleted`: whether a publish ever deleted.
    """

    table: OracleTable
    last_changed: bool = False
    rows: dict[Key, Row] = field(default_factory=dict)
    counts: dict[date, DateCounts] = field(default_factory=dict)
    dropped: int = 0
    newest: dict[date, int] = field(default_factory=dict)
    erased: frozenset[Key] = frozenset()
    deletes_keys: bool = False
    deletes_dates: bool = False
    deleted_dates: dict[date, int] = field(default_factory=dict)
    newest_id: int = -1
    has_deleted: bool = False

    def apply(
        self, deliveries: Sequence[OracleDelivery], retention_day: date, *, only_some_dates: bool = False
    ) -> OracleState:
        """The content after one more publish, which drops the rows before `retention_day`.

        `deliveries`: those that the publish applies, in ascending precedence, at most one for each snapshot id.
        `only_some_dates`: whether they were limited to dates that a replay names.
        """
        day = self.table.day
        before = {key: row for key, row in self.rows.items() if day(row) >= retention_day}
        dropped = len(self.rows) - len(before)
        dropped += sum(day(row) < retention_day for delivery in deliveries for row in delivery.rows)
        ids = [] if only_some_dates else [delivery.snapshot_id for delivery in deliveries]
        replaced: set[date] = set()
        if self.deletes_keys:
            current = [
                replace(delivery, rows=[row for row in delivery.rows if day(row) >= retention_day])
                for delivery in deliveries
            ]
            deliveries, kept = self._deliveries_that_count(current, before, only_some_dates=only_some_dates)
            replaced = {day(row) for row in before.values()} - kept
        counts: dict[date, DateCounts] = {}
        versions: dict[Key, list[Row]] = {key: [row] for key, row in before.items()}
        newest_keys: dict[date, set[Key]] = {}
        newest_ids: dict[date, int] = {}
        for delivery in deliveries:
            rows = [row for row in delivery.rows if day(row) >= retention_day]
            best = self._one_per_key(rows)
            for row_date, surplus in (Counter(day(r) for r in rows) - Counter(day(r) for r in best.values())).items():
                counts.setdefault(row_date, DateCounts()).ties += surplus
            best = {key: row for key, row in best.items() if key not in self.erased}
            for row_date in {day(row) for row in rows}:
                newest_keys[row_date] = {key for key, row in best.items() if day(row) == row_date}
                newest_ids[row_date] = max(delivery.snapshot_id, newest_ids.get(row_date, delivery.snapshot_id))
            for key, row in best.items():
                versions.setdefault(key, []).append(row)
        delivered = {key for keys in newest_keys.values() for key in keys}
        after = {
            key: self._winner(key_versions)
            for key, key_versions in versions.items()
            if key in delivered or day(key_versions[0]) not in replaced
        }
        for key, row in before.items():
            if key not in after and day(row) in newest_keys:
                counts.setdefault(day(row), DateCounts()).deleted += 1
        remaining = {day(row) for row in after.values()}
        emptied = newest_keys.keys() if self._keeps_dates else set()
        deleted_dates = Counter(day(row) for row in before.values() if day(row) not in remaining | emptied)
        for key, row in after.items():
            if day(row) in newest_keys:
                self._count(counts.setdefault(day(row), DateCounts()), key, row, before, newest_keys[day(row)])
        newest, deletes_dates = self._newest_snapshots(newest_ids, before, after), self.deletes_dates and newest_keys
        stay = remaining | emptied if deletes_dates and not only_some_dates else newest.keys()
        newest = {row_date: found for row_date, found in newest.items() if row_date in stay}
        return replace(
            self,
            rows=after,
            counts=counts,
            dropped=dropped,
            newest=newest,
            deleted_dates=dict(deleted_dates),
            newest_id=max([self.newest_id, *ids]),
            has_deleted=self.has_deleted or self.deletes_keys,
        )

    def _deliveries_that_count(
        self, deliveries: Sequence[OracleDelivery], before: dict[Key, Row], *, only_some_dates: bool
    ) -> tuple[list[OracleDelivery], set[date]]:
        """The deliveries with only those rows that a date gets, and the dates that keep their rows.

        A date gets all rows of its newest delivery, unless it has or had rows of a newer snapshot.
        """
        day, name = self.table.day, self.table.snapshot_id_column
        known = dict(self.newest)
        for row in before.values():
            known[day(row)] = max(row[name], self.newest.get(day(row), row[name]), known.get(day(row), row[name]))
        winners: dict[date, int] = {}
        for delivery in deliveries:
            winners |= dict.fromkeys((day(row) for row in delivery.rows), delivery.snapshot_id)
        newest = max(winners.values(), default=None)
        if self.deletes_dates and newest is not None:
            if newest < max([self.newest_id, *(row[name] for row in self.rows.values())]):
                return [], set(known)
            winners = {row_date: snapshot_id for row_date, snapshot_id in winners.items() if snapshot_id == newest}
        winners = {row_date: n for row_date, n in winners.items() if n >= known.get(row_date, n)}
        kept = set() if self.deletes_dates and winners and not only_some_dates else known.keys() - winners.keys()
        counting = [
            replace(delivery, rows=[row for row in delivery.rows if winners.get(day(row)) == delivery.snapshot_id])
            for delivery in deliveries
        ]
        return counting, set(kept)

    def _newest_snapshots(
        self, delivered: dict[date, int], before: dict[Key, Row], after: dict[Key, Row]
    ) -> dict[date, int]:
        """The newest snapshot of each date. `delivered`: the newest one of those that a publish applies to the date."""
        newest, name, day = dict(self.newest), self.table.snapshot_id_column, self.table.day
        for row_date, snapshot_id in delivered.items():
            known, ids = newest.pop(row_date, None), [row[name] for row in before.values() if day(row) == row_date]
            if not self.last_changed and (known is not None or snapshot_id >= max(ids, default=snapshot_id)):
                newest[row_date] = snapshot_id if known is None else max(snapshot_id, known)
        dates = {day(row) for row in after.values()}
        return {row_date: found for row_date, found in newest.items() if row_date in dates or self._keeps_dates}

    @property
    def _keeps_dates(self) -> bool:
        """Whether an older snapshot must not fill a date whose rows were erased."""
        return self.deletes_keys and not self.last_changed

    def erase(self, keys: frozenset[Key]) -> OracleState:
        """The content after an erasure of these keys."""
        rows = {key: row for key, row in self.rows.items() if key not in keys}
        newest = self._newest_snapshots({}, self.rows, rows)
        erased = self.erased | keys
        return replace(self, rows=rows, counts={}, dropped=0, newest=newest, erased=erased, deleted_dates={})

    def with_column(self, name: str) -> OracleState:
        """The content with one more value column, which is NULL in all rows."""
        table = replace(self.table, value_columns=(*self.table.value_columns, name))
        return replace(self, table=table, rows={key: {**row, name: None} for key, row in self.rows.items()})

    def _one_per_key(self, rows: Sequence[Row]) -> dict[Key, Row]:
        """The row with the greatest values for each key."""
        best: dict[Key, Row] = {}
        for row in rows:
            best_so_far = best.get(self.table.key(row))
            if best_so_far is None or self.table.contents(row) > self.table.contents(best_so_far):
                best[self.table.key(row)] = row
        return best

    def _winner(self, versions: list[Row]) -> Row:
        """The row that the table has after all `versions` of a key. Of those with equal snapshot ids the last wins."""
        name = self.table.snapshot_id_column
        ascending = sorted(versions, key=lambda row: row[name])  # stable
        winner = dict(ascending[0])
        for row in ascending[1:]:
            is_unchanged = self.last_changed and self.table.contents(row) == self.table.contents(winner)
            winner = {**row, name: winner[name] if is_unchanged else row[name]}
        return winner

    def _count(self, counts: DateCounts, key: Key, row: Row, before: dict[Key, Row], newest: set[Key]) -> None:
        counts.rows += 1
        counts.new_keys += key not in before
        counts.changed += key in before and self.table.contents(row) != self.table.contents(before[key])
        counts.survivors += key not in newest

    def changes_since(self, before: OracleState, retention_day: date) -> list[OracleChange]:
        """The rows that the table of changes must have for the publish that turned `before` into this content."""
        retained = {key: row for key, row in before.rows.items() if self.table.day(row) >= retention_day}
        changes = []
        for key, row in self.rows.items():
            old = retained.get(key)
            kind = self._kind(row, old, before)
            if kind is not None:
                changes.append(OracleChange(key, kind, old, row))
        deleted = [OracleChange(key, "deleted", old, None) for key, old in retained.items() if key not in self.rows]
        return changes + deleted

    def _kind(self, row: Row, old: Row | None, before: OracleState) -> str | None:
        """The kind of change between a key's rows; None if it has not changed. `old`: the key's row in `before`."""
        if old is None:
            return "new"
        name, day = self.table.snapshot_id_column, self.table.day(row)
        is_changed = self.table.contents(row) != self.table.contents(old)
        if self.last_changed:
            return "changed" if is_changed or row[name] != old[name] else None
        if day in self.newest and day in before.newest:
            is_in, was_in = row[name] == self.newest[day], old[name] == before.newest[day]
            if is_in != was_in:
                return "returned" if is_in else "missing"
        return "changed" if is_changed else None

    def table_rows(self) -> list[list[Any]]:
        """The table's rows in the form of `comparable`."""
        return comparable(self.table, list(self.rows.values()))


def comparable(table: OracleTable, rows: Sequence[Row]) -> list[list[Any]]:
    """The rows as sorted lists of values that Python can compare: keys first, then values, then the snapshot id."""
    columns = (*table.keys, *table.value_columns, table.snapshot_id_column)
    return sorted([ordered(row[name]) for name in columns] for row in rows)


def comparable_change(table: OracleTable, kind: str, old: Row | None, new: Row | None) -> list[Any]:
    """A row of a table of changes as a list that Python can compare."""
    key = [ordered(value) for value in table.key(new or old or {})]
    return [key, kind, *(comparable(table, [row] if row else []) for row in (old, new))]


def ordered(value: Any) -> Any:
    """A value as nested lists, which Python sorts in the order of the data contract: NULL lowest, NaN highest.

    BigQuery has no NULL arrays: NULL in a file stands for an empty array, which is below all others.
    """
    if value is None or value == []:
        return [0]
    if isinstance(value, float):
        return [2] if math.isnan(value) else [1, value + 0.0]  # -0.0 + 0.0 is 0.0
    if isinstance(value, str):
        return [1, value.encode()]
    if isinstance(value, dict):
        return [1, [ordered(item) for item in value.values()]]
    if isinstance(value, (list, tuple)):
        return [1, [ordered(item) for item in value]]
    return [1, value]
