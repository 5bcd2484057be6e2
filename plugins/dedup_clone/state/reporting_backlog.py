"""Stores the rows that the reporting tables in BigQuery still lack, and which process is writing these tables.

The reporting tables are `dedup_clone_status` and `dedup_clone_ledger`. They have rows of all feeds, so the objects are
below `_reporting/` and not in the folder of a feed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.store import ObjectInfo, ObjectStore, StoredText, in_parallel

FOLDER = "_reporting/"  # no feed can have this name
# BigQuery allows 1,500 loads into a table a day, including failed loads. A token bucket keeps to this limit:
# BURST_LOADS may begin at once, and one more every SECONDS_PER_LOAD. In 24 hours this is at most 250 + 86,400 / 75.
BURST_LOADS = 250
SECONDS_PER_LOAD = 75


@dataclass(frozen=True)
class ReportingLoad:
    """One load of both reporting tables. `holder`: who began it, as an attempt's name or `watchdog`.

    `status_digest`: digest of the status rows to load; None if the status table has them already, or if there are none.
    `ledger_rows`: names of the objects whose rows are appended to the ledger table.
    """

    name: str
    holder: str
    begun_at: datetime
    status_digest: str | None
    ledger_rows: tuple[str, ...]

    @property
    def status_job(self) -> str:
        """The id of the BigQuery job that replaces the status table."""
        return f"dedup_clone-reporting-{self.name}-status"

    @property
    def ledger_job(self) -> str:
        """The id of the BigQuery job that appends to the ledger table."""
        return f"dedup_clone-reporting-{self.name}-ledger"


@dataclass(frozen=True)
class ReportingWriter:
    """Which load writes the reporting tables now, and how many more may begin.

    `load`: the load that has begun and may still run; None if there is none.

    `status_digest`: digest of the rows in the status table; None if not known. `begun_at`: when the last load began;
    None before the first. `loads_left`: how many more loads the daily limit allowed at that time. `status_fails_since`:
    if the last load of the status table failed, when the first failed load after the last successful one began; else
    None.
    """

    status_digest: str | None
    begun_at: datetime | None
    loads_left: float
    load: ReportingLoad | None
    status_fails_since: datetime | None = None

    def loads_allowed(self, now: datetime) -> float:
        """How many loads the daily limit allows now."""
        if self.begun_at is None:
            return BURST_LOADS
        seconds = max(0.0, (now - self.begun_at).total_seconds())
        return min(BURST_LOADS, self.loads_left + seconds / SECONDS_PER_LOAD)

    def begin(self, load: ReportingLoad) -> ReportingWriter:
        """The writer while `load` runs."""
        left = self.loads_allowed(load.begun_at) - 1
        return dataclasses.replace(self, begun_at=load.begun_at, loads_left=left, load=load)


@dataclass(frozen=True)
class StoredWriter:
    """The writer's record and its object generation, which is 0 if the object is absent."""

    writer: ReportingWriter
    object_generation: int


class ReportingBacklog:
    """The rows that the ledger table lacks, and the writer's record. `writer`: the name of this record's object."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.writer = f"{FOLDER}WRITER"
        self._ledger = f"{FOLDER}ledger/"

    def add(self, feed: str, attempt: str, row: Mapping[str, Any]) -> None:
        """Store the ledger table's row of one attempt, in one line, until it is appended."""
        self._store.create(self.name(feed, attempt), row_text(row))

    def name(self, feed: str, attempt: str) -> str:
        """The name of the object with the row of one attempt."""
        return f"{self._ledger}{feed}/{attempt}.json"

    def attempts(self, feed: str) -> list[str]:
        """The attempts of one feed whose rows the ledger table lacks."""
        folder = f"{self._ledger}{feed}/"
        names = [info.name for info in self.objects() if info.name.startswith(folder)]
        return [name.removeprefix(folder).removesuffix(".json") for name in names]

    def names(self) -> list[str]:
        """The object names of all rows that the ledger table lacks."""
        return [info.name for info in self.objects()]

    def objects(self) -> list[ObjectInfo]:
        """The objects of all rows that the ledger table lacks."""
        return [info for info in self._store.objects(self._ledger) if info.name.endswith(".json")]

    def rows(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows in the named objects, by name, without objects that are gone."""
        found = zip(names, in_parallel(self._store.read, names), strict=True)
        return {name: self._row(name, stored) for name, stored in found if stored is not None}

    def forget_change_rows(self, feed: str, last: int) -> None:
        """Set `change_rows` to NULL in the stored rows of the feed's generations up to `last`."""
        for attempt in self.attempts(feed):
            name = self.name(feed, attempt)
            stored = self._store.read(name)
            row = self._row(name, stored) if stored else {}
            if stored and row["change_rows"] and row["generation"] <= last:
                with contextlib.suppress(LostRace):  # it was loaded meanwhile
                    text = row_text({**row, "change_rows": None})
                    self._store.replace(name, text, expected_object_generation=stored.object_generation)

    def _row(self, name: str, stored: StoredText) -> dict[str, Any]:
        row: dict[str, Any] = from_json(dict, stored.text, where=self._store.uri(name))
        return row

    def remove(self, names: Sequence[str]) -> None:
        """Delete the named objects, whose rows the ledger table has by now."""
        in_parallel(self._store.delete_prefix, names)

    def read_writer(self) -> StoredWriter:
        """The writer; if the record is absent, a writer that has loaded nothing yet."""
        stored = self._store.read(self.writer)
        if stored is None:
            return StoredWriter(ReportingWriter(None, None, BURST_LOADS, None), 0)
        writer = from_json(ReportingWriter, stored.text, where=self._store.uri(self.writer))
        return StoredWriter(writer, stored.object_generation)

    def replace_writer(self, writer: ReportingWriter, *, expected_object_generation: int) -> StoredWriter:
        """Replace the writer's record. Raises LostRace when another writer replaced it."""
        written = self._store.replace(
            self.writer, to_json(writer), expected_object_generation=expected_object_generation
        )
        return StoredWriter(writer, written)


def row_text(row: Mapping[str, Any]) -> str:
    """The row as it is stored, and as load jobs read it: JSON in one line."""
    return json.dumps(row, ensure_ascii=False)
