"""Which generations a rollback can restore, as far as records tell. The rollback itself verifies this."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dedup_clone.contract.records import to_plain
from dedup_clone.page.feed_history import FeedHistory
from dedup_clone.state.ledger import LedgerRecord

GENERATIONS_LISTED = 50
# Time travel must still reach the generation at the swap, after the approval. So the page offers time travel only until
# this long before its window ends.
APPROVAL_MARGIN = timedelta(hours=1)


def generations_view(history: FeedHistory, now: datetime) -> list[dict[str, Any]]:
    """The newest generations, newest first.

    `restorable`: what a rollback restores the generation from, `time travel` or `files`; None if from neither. `until`:
    until when time travel can restore it; None unless it is restored from there.
    """
    listed = list(reversed(history.published[-GENERATIONS_LISTED:]))
    origins = _origins(history.published)
    # Prune retains the files of the live generation and its parent. A rollback reuses the files of what it restores.
    kept = [manifest for manifest in (history.live, history.parent) if manifest and manifest.data_folder is not None]
    origins_with_files = {origins[m.generation].generation for m in kept if m.generation in origins}
    live = history.live.generation if history.live else None
    views = []
    for record in listed:
        origin, is_erased = origins[record.generation], record.generation < history.erasure_generation
        until = None if is_erased else _time_travel_until(history, origin)
        restorable = "files" if origin.generation in origins_with_files and not is_erased else None
        if until is not None and now < until:
            restorable = "time travel"
        views.append(
            {
                "generation": record.generation,
                "restores": record.restores,
                "snapshot_id": str(record.snapshot_id),
                "rows": record.rows,
                "swapped_at": to_plain(record.swapped_at),
                "is_live": record.generation == live,
                "restorable": restorable,
                "until": to_plain(until) if restorable == "time travel" else None,
            }
        )
    return views


def _origins(published: list[LedgerRecord]) -> dict[int, LedgerRecord]:
    """For each generation, the one that first had its content; another one than itself after a rollback."""
    origins: dict[int, LedgerRecord] = {}
    for record in published:
        origins[record.generation] = origins.get(record.restores or 0, record)
    return origins


def _time_travel_until(history: FeedHistory, origin: LedgerRecord) -> datetime | None:
    """Until when a rollback by time travel can be triggered; None if it cannot be, or if that is not known.

    A rollback by time travel clones staging, which then still has other rows. So the time counts at which staging held
    the content first. Time travel does not reach back beyond the creation of staging.
    """
    file = history.feed_file
    if origin.swapped_at is None or file.staging_created_at is None or origin.swapped_at <= file.staging_created_at:
        return None
    return origin.swapped_at + timedelta(hours=file.time_travel_hours) - APPROVAL_MARGIN
