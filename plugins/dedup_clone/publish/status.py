"""The status table for readers: one row a feed, loaded (not queried) after each commit."""

from __future__ import annotations

from typing import Any

from dedup_clone.publish.services import Services
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.status import StatusRow, StatusRows

STATUS_TABLE = "dedup_clone_status"
ROUNDS = 5


def refresh_status(services: Services, record: LedgerRecord) -> None:
    """Load the committed state of all feeds; once more when another feed committed meanwhile, so none gets lost."""
    if record.swapped_at is None:
        return
    status = StatusRows(services.store)
    status.write(StatusRow(record.feed, record.generation, record.snapshot_id, record.arrived_at, record.swapped_at))
    rows = status.read()
    for _ in range(ROUNDS):
        services.warehouse.load_status([_row(row) for row in rows], STATUS_TABLE)
        again = status.read()
        if again == rows:
            return
        rows = again


def _row(row: StatusRow) -> dict[str, Any]:
    return {
        "feed": row.feed,
        "generation": row.generation,
        "snapshot_id": row.snapshot_id,
        "arrived_at": row.arrived_at.isoformat(),
        "swapped_at": row.swapped_at.isoformat(),
    }
