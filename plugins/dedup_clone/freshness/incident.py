"""Defines incidents: what is wrong with a feed, since when, and who was told. Only the watchdog writes their records.

One object holds the records of a feed. The watchdog writes it after it has sent the alerts, so a check that is killed
between the two sends them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import FOLDER
from dedup_clone.state.store import ObjectStore


def format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def format_duration(duration: timedelta) -> str:
    """Format a duration as `45 s`, `12 min`, `3 h 05 min` or `2 d 4 h`; a negative one as `0 s`."""
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


NO_FEED = FOLDER.rstrip("/")  # takes the place of the feed's name in records and alerts that belong to no feed


class IncidentKind(StrEnum):
    """The kinds of incidents. Their values are stored; docs/runbook.md has a heading for each, with all its subjects.

    LATE: a delivery has missed its SLA or is about to, or the live snapshot is too old. STOPPED: something keeps
    deliveries from being published. PUBLISH_FAILED: the publish of a delivery failed, or a check stopped it. REFUSED: a
    delivery or its marker breaks the data contract. REPORTING: the watchdog, or a table about publishes, lacks
    something.
    """

    LATE = "late"
    ARRIVAL_OVERDUE = "arrival_overdue"
    STOPPED = "stopped"
    PUBLISH_FAILED = "publish_failed"
    REFUSED = "refused"
    TARGET_DRIFT = "target_drift"
    CONTENT_UNEQUAL = "content_unequal"
    REPORTING = "reporting"


class Severity(StrEnum):
    """WARNING: readers are not affected yet. ALERT: readers are affected, or the feed does not work."""

    WARNING = "warning"
    ALERT = "alert"


@dataclass(frozen=True)
class Incident:
    """Something that is wrong with a feed. `subject` (a cause, a delivery) separates incidents of the same kind.

    `dag_id`, `run_id`: the DAG or the run that a person must see to, if there is one.
    """

    kind: IncidentKind
    severity: Severity
    since: datetime
    what: str
    next_step: str
    subject: str = ""
    dag_id: str = ""
    run_id: str = ""

    @property
    def name(self) -> str:
        """Identifies the incident among those of its feed. It stays the same when the severity changes."""
        return f"{self.kind}-{self.subject}" if self.subject else str(self.kind)


@dataclass(frozen=True)
class IncidentRecord:
    """One incident. `ended_at`: None while it is open.

    `told`: who knows that it began, and not that it ended; with the severity of which each was told.
    """

    incident: Incident
    ended_at: datetime | None = None
    told: dict[str, Severity] = field(default_factory=dict)

    def to_tell(self, notifiers: Iterable[str]) -> tuple[str, ...]:
        """Those of the notifiers that must be told of the incident as it is now, or of its end."""
        if self.ended_at is not None:
            return tuple(name for name in notifiers if name in self.told)
        return tuple(name for name in notifiers if self.told.get(name) is not self.incident.severity)


@dataclass(frozen=True)
class IncidentRecords:
    """The records of one feed: of open incidents, and of ended ones until all notifiers know of the end."""

    records: tuple[IncidentRecord, ...]

    @property
    def open(self) -> tuple[Incident, ...]:
        return tuple(record.incident for record in self.records if record.ended_at is None)

    def compare(self, found: Iterable[Incident], now: datetime) -> tuple[IncidentRecord, ...]:
        """The records after a check that found these incidents: those that are not found have ended.

        An open incident keeps what was found first, until its severity changes. If an ended incident is found again,
        those who do not know of its end are told nothing.
        """
        active = {incident.name: incident for incident in found}
        after = []
        for record in self.records:
            incident = active.pop(record.incident.name, None)
            if incident is not None:
                is_same = record.ended_at is None and record.incident.severity is incident.severity
                after.append(record if is_same else IncidentRecord(incident, told=record.told))
            else:
                after.append(replace(record, ended_at=record.ended_at or now))
        return (*after, *map(IncidentRecord, active.values()))


def read_incident_records(store: ObjectStore, feed: str) -> IncidentRecords:
    """The feed's records. A damaged object is logged and counts as absent: all that is open is reported again."""
    found = store.read_reports(IncidentRecords, [FeedLayout(feed).incidents])
    return found[0] if found else IncidentRecords(())


def write_incident_records(store: ObjectStore, feed: str, records: IncidentRecords) -> None:
    store.put(FeedLayout(feed).incidents, to_json(records))
