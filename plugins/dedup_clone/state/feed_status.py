"""Stores the rows of the status table, one for each feed, as objects below `_status/` in the state bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.store import ObjectStore, StoredText, retry_lost_race

FOLDER = "_status/"  # no feed can have this name


@dataclass(frozen=True)
class StatusRow:
    """The live generation of one feed.

    `replay`: whether a replay of deliveries or dates that were live before made the generation. `restores`: the
    generation whose content a rollback made live again; None if no rollback made this generation.
    """

    feed: str
    generation: int
    snapshot_id: int
    arrived_at: datetime
    swapped_at: datetime
    replay: bool = False
    restores: int | None = None


class StatusRows:
    """The status rows of all feeds."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def write(self, row: StatusRow) -> None:
        """Replace the row of one feed, unless the stored row is of the same or a later generation. Raises LostRace."""
        name = status_object(row.feed)

        def replace() -> None:
            stored = self._store.read(name)
            if stored is None or self._generation(stored) < row.generation:
                expected = 0 if stored is None else stored.object_generation
                self._store.replace(name, to_json(row), expected_object_generation=expected)

        retry_lost_race(replace)

    def delete(self, feed: str) -> None:
        """Delete the row of one feed, if there is one. The next load of the status table then leaves the feed out."""
        self._store.delete_prefix(status_object(feed))

    def read(self) -> list[StatusRow]:
        """All rows, in the order of feeds, without damaged ones (the feed's next commit replaces these)."""
        names = [info.name for info in self._store.objects(FOLDER) if info.name.endswith(".json")]
        return self._store.read_reports(StatusRow, names)

    def _generation(self, stored: StoredText) -> int:
        """The generation in a stored row; 0 if the row cannot be read: `write` then replaces it."""
        try:
            return from_json(StatusRow, stored.text, where=FOLDER).generation
        except ContractViolation:
            return 0


def status_object(feed: str) -> str:
    """The name of the object with the feed's row."""
    return f"{FOLDER}{feed}.json"
