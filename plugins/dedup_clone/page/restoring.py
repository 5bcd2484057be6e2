"""Which generations can be made live again, as far as the index tells; the rollback's first task judges it exactly."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dedup_clone.state.index import Index, IndexGeneration

# The rollback needs the clone to be possible still when somebody has approved it.
MARGIN = timedelta(hours=1)


def generation_view(index: Index, generation: IndexGeneration, now: datetime) -> dict[str, Any]:
    """One generation; `restorable` is why it can be restored (`time travel`, `files`), None when it cannot."""
    until = _time_travel_until(index, generation)
    by = None
    if generation.generation != index.generation:
        if until is not None and now < until:
            by = "time travel"
        elif generation.has_files:
            by = "files"
    return {
        "generation": generation.generation,
        "restores": generation.restores,
        "snapshot_id": str(generation.snapshot_id),
        "rows": generation.rows,
        "swapped_at": generation.swapped_at.isoformat(),
        "is_live": generation.generation == index.generation,
        "restorable": by,
        "until": until.isoformat() if until is not None and by == "time travel" else None,
    }


def _time_travel_until(index: Index, generation: IndexGeneration) -> datetime | None:
    travel, checked_at = index.time_travel, generation.checked_at
    if travel is None or checked_at is None or checked_at <= travel.staging_created_at:
        return None
    return checked_at + timedelta(hours=travel.hours) - MARGIN
