"""Stores what the tables `dedup_clone_ledger` and `FEED_changes` still lack, one object for each attempt.

The watchdog looks at all feeds at once, so the objects are below `_reporting/` and not in the folder of a feed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json
from dedup_clone.state.store import ObjectStore, StoredText

FOLDER = "_reporting/"  # no feed can have this name
LEDGER = f"{FOLDER}ledger/"  # each object is the row of the ledger table
CHANGES = f"{FOLDER}changes/"  # each object is the list of files with the attempt's changes
_ENDING = {LEDGER: ".json", CHANGES: ".txt"}


@dataclass(frozen=True)
class WaitingRows:
    """Rows of an attempt that a table lacks. `since`: when that was stored."""

    feed: str
    attempt: str
    since: datetime


class ReportingBacklog:
    """What a table lacks of all feeds. `folder`: LEDGER or CHANGES."""

    def __init__(self, store: ObjectStore, folder: str = LEDGER) -> None:
        self._store = store
        self._folder = folder

    def add(self, feed: str, attempt: str, text: str) -> None:
        """Store what the table lacks until it has it. Does nothing if it is stored."""
        self._store.create(self.name(feed, attempt), text)

    def add_row(self, feed: str, attempt: str, row: Mapping[str, Any]) -> None:
        """Store the row of the ledger table."""
        self.add(feed, attempt, _text(row))

    def waiting(self, feed: str = "") -> list[WaitingRows]:
        """What the table lacks, of one feed or of all, in the order of feeds and attempts."""
        found, ending = [], _ENDING[self._folder]
        for info in self._store.objects(f"{self._folder}{feed}/" if feed else self._folder):
            if info.name.endswith(ending):
                owner, _, attempt = info.name.removeprefix(self._folder).removesuffix(ending).partition("/")
                found.append(WaitingRows(owner, attempt, info.created_at))
        return found

    def read_row(self, feed: str, attempt: str) -> dict[str, Any] | None:
        """The row of an attempt; None if the table has it. Raises ContractViolation if the object is damaged."""
        stored = self._store.read(self.name(feed, attempt))
        return None if stored is None else self._row(self.name(feed, attempt), stored)

    def remove(self, feed: str, attempt: str) -> None:
        """Delete what the table has by now, or never will have."""
        self._store.delete_prefix(self.name(feed, attempt))

    def forget_change_rows(self, feed: str, attempt: str) -> None:
        """Set `change_rows` to NULL in the row of an attempt."""
        name = self.name(feed, attempt)
        stored = self._store.read(name)
        if stored is not None:
            text = _text({**self._row(name, stored), "change_rows": None})
            with contextlib.suppress(LostRace):  # it was loaded meanwhile
                self._store.replace(name, text, expected_object_generation=stored.object_generation)

    def name(self, feed: str, attempt: str) -> str:
        return f"{self._folder}{feed}/{attempt}{_ENDING[self._folder]}"

    def _row(self, name: str, stored: StoredText) -> dict[str, Any]:
        row: dict[str, Any] = from_json(dict, stored.text, where=self._store.uri(name))
        return row


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
