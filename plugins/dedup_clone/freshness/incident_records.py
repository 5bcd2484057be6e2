"""Which incidents of a feed are open, and which notifiers were told of them. Only the watchdog writes these records.

One object holds all records of a feed. The watchdog writes it after it has sent the alerts, so a check that is killed
between the two sends them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from dedup_clone.contract.records import to_json
from dedup_clone.freshness.incident import ESCALATES_TO, Incident, IncidentKind
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.reporting_backlog import FOLDER
from dedup_clone.state.store import ObjectStore

NO_FEED = FOLDER.rstrip("/")  # takes the place of the feed's name in records and alerts that belong to no feed


@dataclass(frozen=True)
class IncidentRecord:
    """One incident. `ended_at`: None while it is open. `told`: who knows that it began, and not that it ended."""

    incident: Incident
    ended_at: datetime | None = None
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class IncidentRecords:
    """The records of one feed: of open incidents, and of ended ones until all notifiers know of the end."""

    records: tuple[IncidentRecord, ...]

    @property
    def open(self) -> tuple[Incident, ...]:
        return tuple(record.incident for record in self.records if record.ended_at is None)

    def compare(
        self, found: Iterable[Incident], now: datetime, unchecked: Collection[IncidentKind] = ()
    ) -> tuple[IncidentRecord, ...]:
        """The records after a check that found these incidents: those that are not found have ended.

        Incidents of the kinds in `unchecked` stay open: their checks could not run. A warning that has become an alert
        (ESCALATES_TO) ends without a record, because nobody is told. If an ended incident is found again, those who do
        not know of its end are not told that it began.
        """
        active = {incident.name: incident for incident in found}
        # An alert that has ended does not make a warning obsolete: that alert was about an earlier delivery.
        kinds = {incident.kind for incident in (*active.values(), *self.open)}
        after = []
        for record in self.records:
            incident = active.pop(record.incident.name, None)
            if incident is not None:
                is_open = record.ended_at is None
                after.append(record if is_open else IncidentRecord(incident, told=record.told))
            elif record.ended_at is not None or record.incident.kind in unchecked:
                after.append(record)
            elif ESCALATES_TO.get(record.incident.kind) not in kinds:
                after.append(replace(record, ended_at=now))
        return (*after, *map(IncidentRecord, active.values()))


def read_incident_records(store: ObjectStore, feed: str) -> IncidentRecords:
    """The feed's records. A damaged object is logged and counts as absent: all that is open is reported again."""
    found = store.read_reports(IncidentRecords, [FeedLayout(feed).incidents])
    return found[0] if found else IncidentRecords(())


def write_incident_records(store: ObjectStore, feed: str, records: IncidentRecords) -> None:
    store.put(FeedLayout(feed).incidents, to_json(records))
