"""The status table for readers: one row for each feed, which names its live generation."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.records import to_plain
from dedup_clone.state.feed_status import StatusRow

STATUS_TABLE = "dedup_clone_status"

_COLUMN_TYPES = {
    "feed": "STRING",
    "generation": "INTEGER",
    "snapshot_id": "INTEGER",
    "arrived_at": "TIMESTAMP",
    "swapped_at": "TIMESTAMP",
    "replay": "BOOLEAN",
    "restores": "INTEGER",
}


def status_schema() -> list[dict[str, Any]]:
    """The table's schema as the REST API writes it."""
    return [{"name": name, "type": kind} for name, kind in _COLUMN_TYPES.items()]


def status_row(row: StatusRow) -> dict[str, Any]:
    """The row of one feed."""
    plain = to_plain(row)
    return {name: plain[name] for name in _COLUMN_TYPES}
