"""The status table for readers: one row per feed, replaced by a load job (which is free) after each commit."""

from __future__ import annotations

from typing import Any

from dedup_clone.publish.services import Services
from dedup_clone.state.feed_status import StatusRow, StatusRows
from dedup_clone.state.ledger import LedgerRecord

STATUS_TABLE = "dedup_clone_status"
LOAD_ATTEMPTS = 5


def refresh_status(services: Services, record: LedgerRecord) -> None:
    """Load the rows of all feeds; load again if another feed committed meanwhile, else its old row would stay."""
    if record.swapped_at is None:
        return
    status = StatusRows(services.store)
    status.write(StatusRow(record.feed, record.generation, record.snapshot_id, record.arrived_at, record.swapped_at))
    rows = status.read()
    for _ in range(LOAD_ATTEMPTS):
        services.warehouse.load_status([_row(row) for row in rows], STATUS_TABLE)
        latest_rows = status.read()
        if latest_rows == rows:
            return
        rows = latest_rows


def _row(row: StatusRow) -> dict[str, Any]:
    return {
        "feed": row.feed,
        "generation": row.generation,
        "snapshot_id": row.snapshot_id,
        "arrived_at": row.arrived_at.isoformat(),
        "swapped_at": row.swapped_at.isoformat(),
    }
