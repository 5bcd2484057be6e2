"""Incident records in the state bucket: whoever creates one tells of it, whoever ends it tells that, and nobody twice.

A record is created only if absent and changed only as it was read, so that of two watchdogs (or the watchdog and a
missed deadline) one tells. It notes who was told: a notifier that failed is tried again by the next look, the others
are left alone. A teller that dies in the middle is replaced when its claim has run out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.freshness.incident import WORSE, Incident
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore

# Longer than telling takes even in a triggerer that must first build Airflow's API to read a connection.
CLAIM = timedelta(minutes=10)
# A look judges facts that may be older than an incident which a missed deadline has just told: it does not end it.
LASTS_AT_LEAST = timedelta(minutes=1)
END_TOLD_FOR = timedelta(hours=1)  # then whoever cannot be reached is not told of the end any more

# Tells of a record; returns who was reached. `left` are those to tell; it never raises.
Tell = Callable[["IncidentRecord", tuple[str, ...]], tuple[str, ...]]


@dataclass(frozen=True)
class IncidentRecord:
    """`told` heard that it began, `told_end` that it ended; since `claimed_at` somebody is telling (None: nobody)."""

    incident: Incident
    opened_at: datetime
    ended_at: datetime | None
    claimed_at: datetime | None
    told: tuple[str, ...]
    told_end: tuple[str, ...]


class IncidentFiles:
    """The incidents of one feed. `notifiers` are the names of all who are told."""

    def __init__(self, store: ObjectStore, feed: str, notifiers: tuple[str, ...], tell: Tell) -> None:
        self._store = store
        self._layout = FeedLayout(feed)
        self._notifiers = notifiers
        self._tell = tell

    def settle(self, incidents: Iterable[Incident], now: datetime) -> int:
        """Make the records be `incidents`, all that the feed had at `now`; returns how many that are."""
        active = {incident.name: incident for incident in incidents}
        known = self._read_all()
        kinds = {i.kind for i in active.values()} | {record.incident.kind for record, _ in known.values()}
        for name, (record, generation) in known.items():
            if record.ended_at is not None:
                self._tell_end(name, record, generation, now)
            elif name in active:
                self._tell_rest(name, record, generation, now)
            elif WORSE.get(record.incident.kind) in kinds:
                self._remove(name, generation)
            else:
                self._end(name, record, generation, now)
        for name, incident in active.items():
            if name not in known:
                self.open(incident, now)
        return len(active)

    def open(self, incident: Incident, now: datetime) -> bool:
        """Tell of an incident unless it is known; True when this call told it."""
        record = IncidentRecord(incident, now, None, now, (), ())
        generation = self._write(incident.name, record, 0)
        if generation is None:
            return False
        self._tell_began(incident.name, record, generation)
        return True

    def _tell_began(self, name: str, record: IncidentRecord, generation: int) -> None:
        left = tuple(n for n in self._notifiers if n not in record.told)
        reached = self._tell(record, left)
        told = dataclasses.replace(record, told=(*record.told, *reached), claimed_at=None)
        self._write(name, told, generation)

    def _tell_rest(self, name: str, record: IncidentRecord, generation: int, now: datetime) -> None:
        if set(self._notifiers) <= set(record.told) or self._being_told(record, now):
            return
        claim = dataclasses.replace(record, claimed_at=now)
        claimed = self._write(name, claim, generation)
        if claimed is not None:
            self._tell_began(name, claim, claimed)

    def _end(self, name: str, record: IncidentRecord, generation: int, now: datetime) -> None:
        if self._being_told(record, now) or now - record.opened_at < LASTS_AT_LEAST:
            return  # the next look ends it
        ended = dataclasses.replace(record, ended_at=now, claimed_at=now)
        written = self._write(name, ended, generation)
        if written is not None:
            self._finish(name, ended, written, now)

    def _tell_end(self, name: str, record: IncidentRecord, generation: int, now: datetime) -> None:
        if self._being_told(record, now):
            return
        claim = dataclasses.replace(record, claimed_at=now)
        claimed = self._write(name, claim, generation)
        if claimed is not None:
            self._finish(name, claim, claimed, now)

    def _finish(self, name: str, record: IncidentRecord, generation: int, now: datetime) -> None:
        """Only those hear of the end who heard of the beginning."""
        left = tuple(n for n in record.told if n not in record.told_end and n in self._notifiers)
        reached = (*record.told_end, *self._tell(record, left)) if left else record.told_end
        overdue = record.ended_at is not None and now - record.ended_at > END_TOLD_FOR
        if overdue or all(n in reached for n in left):
            self._remove(name, generation)
        else:
            self._write(name, dataclasses.replace(record, told_end=reached, claimed_at=None), generation)

    def _read_all(self) -> dict[str, tuple[IncidentRecord, int]]:
        found = {}
        for info in self._store.objects(self._layout.incidents):
            stored = self._store.read(info.name)
            if stored is not None:
                name = info.name.removeprefix(self._layout.incidents).removesuffix(".json")
                record = from_json(IncidentRecord, stored.text, where=self._store.uri(info.name))
                found[name] = (record, stored.generation)
        return found

    def _write(self, name: str, record: IncidentRecord, expected_generation: int) -> int | None:
        """The new object generation; None when somebody else was there."""
        try:
            return self._store.replace(
                self._layout.incident(name), to_json(record), expected_generation=expected_generation
            )
        except LostRace:
            return None

    def _remove(self, name: str, generation: int) -> None:
        self._store.delete(self._layout.incident(name), expected_generation=generation)

    def _being_told(self, record: IncidentRecord, now: datetime) -> bool:
        """Somebody took it on lately, and there is still somebody to tell."""
        left = set(self._notifiers) - set(record.told)
        if record.ended_at is not None:
            left = set(record.told) - set(record.told_end)
        return bool(left) and record.claimed_at is not None and now - record.claimed_at < CLAIM
