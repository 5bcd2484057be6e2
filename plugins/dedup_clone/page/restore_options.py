"""Computes from the page index which generations a rollback can restore. The rollback itself verifies this."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dedup_clone.contract.records import to_plain
from dedup_clone.state.index import Index, IndexGeneration

# Time travel must still reach the generation at the swap, after the approval. So the page offers time travel only until
# this long before its window ends.
APPROVAL_MARGIN = timedelta(hours=1)


def generation_view(index: Index, generation: IndexGeneration, now: datetime) -> dict[str, Any]:
    """What the page shows of one generation.

    `restorable`: its source for a rollback, `time travel` or `files`; None if it has neither. `until`:
    until when time travel can restore it; None unless time travel is its source.
    """
    until = _time_travel_until(index, generation)
    restorable = "files" if generation.has_files else None
    if until is not None and now < until:
        restorable = "time travel"
    return {
        "generation": generation.generation,
        "restores": generation.restores,
        "snapshot_id": str(generation.snapshot_id),
        "rows": generation.rows,
        "swapped_at": generation.swapped_at.isoformat(),
        "is_live": generation.generation == index.generation,
        "restorable": restorable,
        "until": to_plain(until) if restorable == "time travel" else None,
    }


def _time_travel_until(index: Index, generation: IndexGeneration) -> datetime | None:
    """Until when a rollback by time travel can be triggered; None if it cannot be, or if the index does not say.

    Time travel does not reach back beyond the creation of staging.
    """
    travel, checked_at = index.time_travel, generation.checked_at
    if travel is None or checked_at is None or checked_at <= travel.staging_created_at:
        return None
    return checked_at + timedelta(hours=travel.hours) - APPROVAL_MARGIN
