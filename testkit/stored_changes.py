"""Reads a table of changes with BigQuery's client, and computes with the oracle which rows it must have."""

from __future__ import annotations

from datetime import date
from typing import Any

from google.cloud.bigquery import Client as BigQuery

from testkit.oracle import OracleState, OracleTable, comparable_change

Change = tuple[int, int, list[Any]]  # generation, snapshot id, and the row as `comparable_change` gives it


def stored_changes(bigquery: BigQuery, name: str, table: OracleTable) -> list[Change]:
    """The sorted rows of the table of changes `name` (with its dataset). `table`: the columns of the feed's table."""
    found = [dict(row.items()) for row in bigquery.query_and_wait(f"SELECT * FROM {name}")]
    assert all(table.key(row) == table.key(row["new_row"]) for row in found)
    return sorted(
        (
            row["generation"],
            row["snapshot_id"],
            comparable_change(table, row["change_type"], row["old_row"], row["new_row"]),
        )
        for row in found
    )


def expected_changes(
    before: OracleState, after: OracleState, *, generation: int, snapshot_id: int, retention_day: date
) -> list[Change]:
    """The rows that a publish must add to the table of changes, sorted. `before`, `after`: the table's content."""
    changes = after.changes_since(before, retention_day)
    return sorted(
        (generation, snapshot_id, comparable_change(after.table, change.kind, change.old, change.new))
        for change in changes
    )
