"""Compares the changes that a job wrote with those that the oracle computes from the tables before and after."""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.manifest import Candidate
from testkit.oracle import OracleState, comparable_change
from testkit.spark_job_feed import PUBLISH_DAY, SparkJobFeed


def assert_changes(
    area: SparkJobFeed, candidate: Candidate, before: OracleState, expected: OracleState, retention_day: date
) -> None:
    """No changes are looked for if they are not requested, or if the parent has no row within the retention."""
    found, table = area.changes(candidate), expected.table
    has_parent = any(row[table.partition_column] >= retention_day for row in before.rows.values())
    assert (found is not None) == (area.with_changes and has_parent)
    if found is None:
        return
    assert area.manifest
    about = {(row["publish_date"], row["generation"], row["snapshot_id"]) for row in found}
    assert about <= {(PUBLISH_DAY, area.manifest.generation, area.manifest.snapshot_id)}
    changes = expected.changes_since(before, retention_day)
    assert all(table.key(row) == table.key(row["new_row"]) for row in found)
    assert sorted(
        comparable_change(table, row["change_type"], row["old_row"], row["new_row"]) for row in found
    ) == sorted(comparable_change(table, change.kind, change.old, change.new) for change in changes)
