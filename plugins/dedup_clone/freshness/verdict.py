"""Stores the verdict, the result of the last check of a feed, in `_freshness/`. The page shows it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.freshness.incident import Incident, format_duration, format_time
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish
from dedup_clone.state.layout import FRESHNESS_FOLDER, FeedLayout
from dedup_clone.state.store import ObjectStore

CHECK_INTERVAL = timedelta(minutes=5)  # how often the watchdog checks
STALE_AFTER = 3 * CHECK_INTERVAL  # when a verdict is older, checks that should have replaced it did not happen


class FreshnessStatus(StrEnum):
    """LATE: a delivery has missed its SLA, or the live snapshot is too old.

    STOPPED: a check stopped the newest delivery, or an alert of this kind is open, so that nothing is registered or
    published. AT_RISK: any other incident is open. If none is: FRESH, EMPTY if nothing was published yet, or
    ROLLED_BACK if a rollback took a delivery out that is newer than the live ones. UNKNOWN: no check has succeeded, or
    none lately.
    """

    FRESH = "fresh"
    AT_RISK = "at risk"
    STOPPED = "stopped"
    LATE = "late"
    ROLLED_BACK = "rolled back"
    EMPTY = "empty"
    UNKNOWN = "unknown"


class ExpectedTimeState(StrEnum):
    """The state of an expected time. MET: a delivery arrived closer to this time than to any other expected time.

    Without such a delivery the state is SKIPPED if a delivery arrived later, else OVERDUE if the grace period is over,
    else PENDING.
    """

    MET = "met"
    SKIPPED = "skipped"
    OVERDUE = "overdue"
    PENDING = "pending"


@dataclass(frozen=True)
class ExpectedTime:
    """A time, in UTC, at which a delivery is expected, and its state."""

    at: datetime
    state: ExpectedTimeState


@dataclass(frozen=True)
class FeedFile:
    """What the page shows of the feed's file, which the web server cannot read, and how far time travel reaches.

    `landing_files`, `marker`: what a delivery's folder holds. Staging can be read `time_travel_hours` back, but not
    beyond `staging_created_at`; None if that is not known.
    """

    description: str
    owner: str
    target: str
    landing_folder: str
    landing_files: str
    marker: str
    retention_days: int
    sla_minutes: int
    time_travel_hours: float = 0.0
    staging_created_at: datetime | None = None


@dataclass(frozen=True)
class FreshnessVerdict:
    """The result of one check of a feed. `incidents`: all that the page shows, the most important first.

    `readers_see`: what a query of target returns, as the alerts say it. `expected`: the expected arrivals of the last
    week and the next days, which are given in `zone`. `waiting`: the number of deliveries that are not live yet.
    `stopped`: the run that checks stopped with the newest of these, `held`: the deliveries that are held, both without
    examples. `runbook`: its address; it has a heading for each kind of incident. `feed_file`: as last read, if it ever
    could be.
    """

    feed: str
    status: FreshnessStatus
    readers_see: str
    incidents: tuple[Incident, ...]
    checked_at: datetime
    waiting: int = 0
    runbook: str = ""
    zone: str = "UTC"
    expected: tuple[ExpectedTime, ...] = ()
    stopped: StoppedPublish | None = None
    held: tuple[HeldDelivery, ...] = ()
    feed_file: FeedFile | None = None

    @property
    def headline(self) -> str:
        """What readers see, and how many deliveries wait, in one sentence."""
        waits = "1 delivery waits" if self.waiting == 1 else f"{self.waiting} deliveries wait"
        return f"Readers see {self.readers_see}{f'; {waits}' if self.waiting else ''}."

    def is_stale(self, now: datetime) -> bool:
        return now - self.checked_at > STALE_AFTER


def status_and_headline(verdict: FreshnessVerdict, now: datetime) -> tuple[FreshnessStatus, str]:
    """What the verdict says as of `now`. Its status is UNKNOWN if it is stale."""
    if verdict.is_stale(now):
        age = format_duration(now - verdict.checked_at)
        return FreshnessStatus.UNKNOWN, (
            f"The watchdog has not checked since {format_time(verdict.checked_at)}, {age} ago. "
            f"Its last verdict was {verdict.status}: {verdict.headline}"
        )
    return verdict.status, verdict.headline


def write_verdict(store: ObjectStore, verdict: FreshnessVerdict) -> None:
    """Store the verdict, unless the verdict of a later check is stored. Raises LostRace as `change_record` does."""
    name = FeedLayout(verdict.feed).freshness

    def newer(stored: FreshnessVerdict | None) -> FreshnessVerdict | None:
        return None if stored and stored.checked_at > verdict.checked_at else verdict

    try:
        store.change_record(FreshnessVerdict, name, newer)
    except ContractViolation:  # a stored verdict that cannot be read is replaced
        store.put(name, to_json(verdict))


def read_verdict(store: ObjectStore, feed: str) -> FreshnessVerdict | None:
    """The last verdict; None if there is none, or if it cannot be read (another version may have written it)."""
    with contextlib.suppress(ContractViolation):
        return store.read_record(FreshnessVerdict, FeedLayout(feed).freshness)
    return None


def checked_feeds(store: ObjectStore) -> set[str]:
    """The names of the feeds that have a verdict. A retired feed has none."""
    names = [info.name for info in store.objects(FRESHNESS_FOLDER)]
    return {name.removeprefix(FRESHNESS_FOLDER).removesuffix(".json") for name in names}
