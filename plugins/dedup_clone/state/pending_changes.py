"""Stores which generations have rows that are not yet in the table `FEED_changes`, one record for each attempt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime

from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout, generation_of
from dedup_clone.state.reporting_backlog import FOLDER
from dedup_clone.state.store import ObjectStore

_CHANGES = f"{FOLDER}changes/"
URIS = "uris.txt"  # the list of the files to load, in the folder with an attempt's changes


@dataclass(frozen=True)
class PendingChanges:
    """The changes of one committed attempt. `publish_day`: the UTC day on which the attempt began.

    `uris`: the object name of the list of the files to load. `job_number`: the number of the current load job; jobs
    with lower numbers have failed.
    """

    attempt: str
    generation: int
    publish_day: date
    uris: str
    job_number: int = 1


@dataclass(frozen=True)
class StoredPendingChanges:
    """A record, and its object generation when it was read."""

    changes: PendingChanges
    object_generation: int


class PendingChangesFolder:
    """The pending changes of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._folder = f"{_CHANGES}{feed}/"

    def add(self, changes: PendingChanges) -> None:
        """Store the record, unless the attempt has one already."""
        self._store.create(self.name(changes.attempt), to_json(changes))

    def attempts(self) -> list[str]:
        """The attempts with pending changes, in the order of their generations."""
        names = [info.name.removeprefix(self._folder) for info in self._store.objects(self._folder)]
        return [name.removesuffix(".json") for name in names if name.endswith(".json") and generation_of(name)]

    def read(self) -> list[StoredPendingChanges]:
        """All records, in the order of their generations."""
        found = []
        for attempt in self.attempts():
            name = self.name(attempt)
            stored = self._store.read(name)
            if stored is not None:
                record = from_json(PendingChanges, stored.text, where=self._store.uri(name))
                found.append(StoredPendingChanges(record, stored.object_generation))
        return found

    def try_next_job(self, stored: StoredPendingChanges) -> StoredPendingChanges:
        """Increment the number of the load job. Raises LostRace if the record was changed or removed meanwhile."""
        changes = replace(stored.changes, job_number=stored.changes.job_number + 1)
        written = self._store.replace(
            self.name(changes.attempt), to_json(changes), expected_object_generation=stored.object_generation
        )
        return StoredPendingChanges(changes, written)

    def remove(self, changes: PendingChanges) -> None:
        """Delete the record, because the table has the changes by now or never will."""
        self._store.delete_prefix(self.name(changes.attempt))

    def name(self, attempt: str) -> str:
        """The name of the object with the record of one attempt."""
        return f"{self._folder}{attempt}.json"


def feeds_with_pending_changes(store: ObjectStore) -> list[str]:
    """The feeds whose tables of changes lack rows."""
    return [folder.removeprefix(_CHANGES).rstrip("/") for folder in store.folders(_CHANGES)]


def oldest_pending_changes(store: ObjectStore, feed: str) -> datetime | None:
    """When the first of the feed's pending changes were recorded; None if there are none.

    Each further load job replaces the record, which gives it a new creation time. So the time of the list of files is
    returned, which was written together with the first record.
    """
    layout = FeedLayout(feed)
    lists = [f"{layout.changes_folder(attempt)}{URIS}" for attempt in PendingChangesFolder(store, feed).attempts()]
    return min((info.created_at for info in store.stat(lists)), default=None)
