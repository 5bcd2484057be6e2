"""Defines the status table for readers: one row for each feed, which names the feed's live generation."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.records import to_plain
from dedup_clone.state.feed_status import StatusRow

STATUS_TABLE = "dedup_clone_status"

STATUS_DESCRIPTION = "Which generation of each feed's table readers see: one row for each feed, replaced at commits."
STATUS_COLUMNS = {
    "feed": "name of the feed, and of its table",
    "generation": "number of the committed table; each publish and each rollback makes one",
    "snapshot_id": "id of the newest snapshot in the generation, which is what readers see",
    "arrived_at": "when that snapshot's marker was written",
    "swapped_at": "since when readers see the generation",
    "replay": "whether a replay made the generation: its deliveries, or the replayed dates, had been live before",
    "restores": "the generation that a rollback made live again; NULL if no rollback did",
}
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
    return [{"name": name, "type": kind, "description": STATUS_COLUMNS[name]} for name, kind in _COLUMN_TYPES.items()]


def status_row(row: StatusRow) -> dict[str, Any]:
    """The row of one feed."""
    plain = to_plain(row)
    return {name: plain[name] for name in _COLUMN_TYPES}
