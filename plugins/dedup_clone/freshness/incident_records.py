"""Records open incidents in the state bucket, so that each notifier is sent each beginning and each end once.

A record is created only if it is absent, and replaced only if nobody wrote it since it was read. So when two processes
see the same incident (as two runs of the watchdog do), only one notifies. The record lists
the notifiers that were reached; a notifier that failed is retried at the next check. While a process notifies, it holds
a claim on the record; if the process dies, the claim expires and another process continues, which may notify again
those that the dead process had reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.freshness.incident import ESCALATES_TO, Incident, IncidentKind
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.reporting_backlog import FOLDER
from dedup_clone.state.store import ObjectStore

NO_FEED = FOLDER.rstrip("/")  # takes the place of the feed's name in records and alerts that belong to no feed

# A claim expires after this time. Notifying takes less, even in a process that must start Airflow's API before it can
# read a notifier's connection.
CLAIM_LIFETIME = timedelta(minutes=10)
RECOVERY_RETRIED_FOR = timedelta(hours=1)  # after that, a notifier that keeps failing gets no recovery message

# Sends the alert of a record to the named notifiers. Returns the names of those that were reached; never raises.
Notify = Callable[["IncidentRecord", tuple[str, ...]], tuple[str, ...]]


@dataclass(frozen=True)
class IncidentRecord:
    """One incident. `notified`: the notifiers that were reached at its beginning; `notified_of_end`: at its end.

    `claimed_at`: when a process began to notify; None when no process is notifying.
    """

    incident: Incident
    opened_at: datetime
    ended_at: datetime | None
    claimed_at: datetime | None
    notified: tuple[str, ...]
    notified_of_end: tuple[str, ...]


def open_incidents(store: ObjectStore, feed: str) -> list[Incident]:
    """The incidents that were reported and have not ended."""
    return [record.incident for record in open_records(store, feed)]


def open_records(store: ObjectStore, feed: str) -> list[IncidentRecord]:
    """The records of the incidents that `open_incidents` returns."""
    found = store.read_reports(IncidentRecord, _record_names(store, feed))
    return [record for record in found if record.ended_at is None]


def _record_names(store: ObjectStore, feed: str) -> list[str]:
    return [info.name for info in store.objects(FeedLayout(feed).incidents) if info.name.endswith(".json")]


class IncidentRecords:
    """The incident records of one feed. `notifiers` are the names of all notifiers that the profile has now."""

    def __init__(self, store: ObjectStore, feed: str, notifiers: tuple[str, ...], notify: Notify) -> None:
        self._store = store
        self._layout = FeedLayout(feed)
        self._notifiers = notifiers
        self._notify = notify

    def update(self, incidents: Iterable[Incident], now: datetime, unchecked: Collection[IncidentKind] = ()) -> None:
        """Open records for new incidents and close those of incidents that are not in `incidents` any more.

        Incidents of the kinds in `unchecked` stay open: their checks could not run. If an incident begins again while
        notifiers that failed still lack its end, they are sent the end for the last time; the next update opens the
        incident anew. A warning that has become an alert (ESCALATES_TO) is removed without a message.
        """
        active = {incident.name: incident for incident in incidents}
        stored = self._read_all()
        # An alert that has ended does not make a warning obsolete: that alert was about an earlier delivery.
        open_kinds = {record.incident.kind for record, _ in stored.values() if record.ended_at is None}
        kinds = {incident.kind for incident in active.values()} | open_kinds
        for name, (record, object_generation) in stored.items():
            if record.ended_at is not None:
                notify = self._notify_end_finally if name in active else self._notify_end
                self._claim(record, object_generation, now, notify)
            elif name in active:
                self._notify_missing(record, object_generation, now)
            elif ESCALATES_TO.get(record.incident.kind) in kinds:
                self._remove(record, object_generation)
            elif record.incident.kind not in unchecked:
                self._claim(record, object_generation, now, self._notify_end, ended_at=now)
        for name, incident in active.items():
            if name not in stored:
                self.open(incident, now)

    def open(self, incident: Incident, now: datetime) -> bool:
        """Create the incident's record and notify. If the incident has a record already, send nothing, return False."""
        record = IncidentRecord(incident, now, None, now, (), ())
        object_generation = self._write(record, 0)
        if object_generation is None:
            return False
        self._notify_beginning(record, object_generation, now)
        return True

    def open_or_retry(self, incident: Incident, now: datetime) -> None:
        """Open the incident; if it is open already, notify the notifiers that were not reached.

        Use it instead of `update` for a check that looks for this incident only, because `update` closes all others.
        """
        if self.open(incident, now):
            return
        found = self._read(self._layout.incident(incident.name))
        if found is not None and found[0].ended_at is None:
            self._notify_missing(*found, now)

    def _notify_missing(self, record: IncidentRecord, object_generation: int, now: datetime) -> None:
        """Notify the notifiers that were not reached at the beginning, if there are any."""
        if not set(self._notifiers) <= set(record.notified):
            self._claim(record, object_generation, now, self._notify_beginning)

    def _claim(
        self,
        record: IncidentRecord,
        object_generation: int,
        now: datetime,
        notify: Callable[[IncidentRecord, int, datetime], None],
        ended_at: datetime | None = None,
    ) -> None:
        """Claim the record, then notify; nothing is done while another process has a claim on it."""
        if self._is_claimed(record, now):
            return
        claimed = replace(record, claimed_at=now, ended_at=ended_at or record.ended_at)
        claimed_object_generation = self._write(claimed, object_generation)
        if claimed_object_generation is not None:
            notify(claimed, claimed_object_generation, now)

    def _notify_beginning(self, record: IncidentRecord, object_generation: int, now: datetime) -> None:
        reached = self._notify(record, tuple(n for n in self._notifiers if n not in record.notified))
        self._write(replace(record, notified=(*record.notified, *reached), claimed_at=None), object_generation)

    def _notify_end_finally(self, record: IncidentRecord, object_generation: int, now: datetime) -> None:
        """As `_notify_end`, but remove the record in any case."""
        self._notify_end(record, object_generation, now, is_last_try=True)

    def _notify_end(
        self, record: IncidentRecord, object_generation: int, now: datetime, *, is_last_try: bool = False
    ) -> None:
        """Notify the notifiers that were notified of the beginning, except those that were reached or do not exist now.

        Then remove the record if all were reached, or if they are not to be tried again (RECOVERY_RETRIED_FOR).
        """
        not_reached = tuple(n for n in record.notified if n not in record.notified_of_end and n in self._notifiers)
        reached = (
            (*record.notified_of_end, *self._notify(record, not_reached)) if not_reached else record.notified_of_end
        )
        is_too_old = record.ended_at is not None and now - record.ended_at > RECOVERY_RETRIED_FOR
        if is_last_try or is_too_old or all(n in reached for n in not_reached):
            self._remove(record, object_generation)
        else:
            self._write(replace(record, notified_of_end=reached, claimed_at=None), object_generation)

    def _read_all(self) -> dict[str, tuple[IncidentRecord, int]]:
        """Each record and its object generation, by incident name."""
        found = (self._read(name) for name in _record_names(self._store, self._layout.feed))
        return {one[0].incident.name: one for one in found if one is not None}

    def _read(self, name: str) -> tuple[IncidentRecord, int] | None:
        """The record and its object generation; None if there is none."""
        stored = self._store.read(name)
        if stored is None:
            return None
        return from_json(IncidentRecord, stored.text, where=self._store.uri(name)), stored.object_generation

    def _write(self, record: IncidentRecord, expected_object_generation: int) -> int | None:
        """The new object generation; None when another process wrote the record first."""
        name = self._layout.incident(record.incident.name)
        try:
            return self._store.replace(name, to_json(record), expected_object_generation=expected_object_generation)
        except LostRace:
            return None

    def _remove(self, record: IncidentRecord, object_generation: int) -> None:
        self._store.delete(self._layout.incident(record.incident.name), expected_object_generation=object_generation)

    def _is_claimed(self, record: IncidentRecord, now: datetime) -> bool:
        """Whether another process is notifying: its claim has not expired, and some notifiers are not reached yet."""
        not_reached = set(self._notifiers) - set(record.notified)
        if record.ended_at is not None:
            not_reached = set(record.notified) - set(record.notified_of_end)
        return bool(not_reached) and record.claimed_at is not None and now - record.claimed_at < CLAIM_LIFETIME
