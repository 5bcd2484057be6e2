"""What readers may know of each feed, kept as one small object a feed below `_status/`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.records import to_json
from dedup_clone.state.store import ObjectInfo, ObjectStore

FOLDER = "_status/"  # no feed can have this name


@dataclass(frozen=True)
class StatusRow:
    """The live generation of one feed."""

    feed: str
    generation: int
    snapshot_id: int
    arrived_at: datetime
    swapped_at: datetime


class StatusRows:
    """All feeds' rows. What is read again is only what was written meanwhile."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._listed: frozenset[ObjectInfo] = frozenset()
        self._rows: dict[str, StatusRow] = {}

    def write(self, row: StatusRow) -> None:
        self._store.put(_name(row), to_json(row))

    def read(self) -> list[StatusRow]:
        """By feed."""
        listed = frozenset(self._store.objects(FOLDER))
        changed = sorted(info.name for info in listed - self._listed)
        names = {info.name for info in listed}
        rows = {_name(row): row for row in self._store.read_records(StatusRow, changed)}
        self._rows = {name: row for name, row in (self._rows | rows).items() if name in names}
        self._listed = listed
        return [self._rows[name] for name in sorted(self._rows)]


def _name(row: StatusRow) -> str:
    return f"{FOLDER}{row.feed}.json"
