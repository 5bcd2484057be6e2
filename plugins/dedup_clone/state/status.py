"""What readers may know of each feed, kept as one small object a feed below `_status/`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.records import to_json
from dedup_clone.state.store import ObjectStore

FOLDER = "_status/"  # no feed can have this name


@dataclass(frozen=True)
class StatusRow:
    """The live generation of one feed."""

    feed: str
    generation: int
    snapshot_id: int
    arrived_at: datetime
    swapped_at: datetime


def write_status_row(store: ObjectStore, row: StatusRow) -> None:
    store.put(f"{FOLDER}{row.feed}.json", to_json(row))


def read_status_rows(store: ObjectStore) -> list[StatusRow]:
    """All feeds' rows, by feed."""
    rows = (store.read_record(StatusRow, info.name) for info in store.objects(FOLDER))
    return sorted((row for row in rows if row is not None), key=lambda row: row.feed)
