"""Stores the rows that the table `dedup_clone_ledger` still lacks, one object for each attempt.

The table has rows of all feeds, so the objects are below `_reporting/` and not in the folder of a feed.
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
_LEDGER = f"{FOLDER}ledger/"


@dataclass(frozen=True)
class WaitingRow:
    """The row of an attempt that the ledger table lacks. `since`: when the row was stored."""

    feed: str
    attempt: str
    since: datetime


class ReportingBacklog:
    """The rows that the ledger table lacks, of all feeds."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, feed: str, attempt: str, row: Mapping[str, Any]) -> None:
        """Store the row of an attempt until the table has it. Does nothing if it is stored."""
        self._store.create(_name(feed, attempt), _text(row))

    def waiting(self, feed: str = "") -> list[WaitingRow]:
        """The rows that the table lacks, of one feed or of all."""
        found = []
        for info in self._store.objects(f"{_LEDGER}{feed}/" if feed else _LEDGER):
            name, _, ending = info.name.removeprefix(_LEDGER).rpartition(".")
            if ending == "json":
                owner, _, attempt = name.partition("/")
                found.append(WaitingRow(owner, attempt, info.created_at))
        return found

    def read(self, feed: str, attempt: str) -> dict[str, Any] | None:
        """The row of an attempt; None if the table has it. Raises ContractViolation if the object is damaged."""
        stored = self._store.read(_name(feed, attempt))
        return None if stored is None else self._row(_name(feed, attempt), stored)

    def remove(self, feed: str, attempt: str) -> None:
        """Delete the row of an attempt, which the table has by now."""
        self._store.delete_prefix(_name(feed, attempt))

    def forget_change_rows(self, feed: str, attempt: str) -> None:
        """Set `change_rows` to NULL in the row of an attempt."""
        name = _name(feed, attempt)
        stored = self._store.read(name)
        if stored is not None:
            text = _text({**self._row(name, stored), "change_rows": None})
            with contextlib.suppress(LostRace):  # it was loaded meanwhile
                self._store.replace(name, text, expected_object_generation=stored.object_generation)

    def _row(self, name: str, stored: StoredText) -> dict[str, Any]:
        row: dict[str, Any] = from_json(dict, stored.text, where=self._store.uri(name))
        return row


def _name(feed: str, attempt: str) -> str:
    return f"{_LEDGER}{feed}/{attempt}.json"


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
