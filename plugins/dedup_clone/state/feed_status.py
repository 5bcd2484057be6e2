"""Stores the live generation of each feed, for the status table: one object per feed below `_status/`."""

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
    """The status rows of all feeds. A second `read` fetches only the rows written since the first."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._listed: frozenset[ObjectInfo] = frozenset()
        self._rows: dict[str, StatusRow] = {}

    def write(self, row: StatusRow) -> None:
        """Replace the row of one feed."""
        self._store.put(_name(row), to_json(row))

    def read(self) -> list[StatusRow]:
        """All rows, by feed."""
        listed = frozenset(self._store.objects(FOLDER))
        changed = sorted(info.name for info in listed - self._listed)
        names = {info.name for info in listed}
        rows = {_name(row): row for row in self._store.read_records(StatusRow, changed)}
        self._rows = {name: row for name, row in (self._rows | rows).items() if name in names}
        self._listed = listed
        return [self._rows[name] for name in sorted(self._rows)]


def _name(row: StatusRow) -> str:
    return f"{FOLDER}{row.feed}.json"
