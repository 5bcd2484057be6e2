"""Stores the verdict, the result of the last check of a feed, in `_freshness/`. The page shows it.

A summary is stored as metadata of the same object, so that one listing gives the page the summaries of all feeds.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, from_plain, to_json, to_plain
from dedup_clone.freshness.durations import format_time
from dedup_clone.freshness.incident import ESCALATES_TO, Incident, Severity
from dedup_clone.state.layout import FRESHNESS_FOLDER, FeedLayout
from dedup_clone.state.store import ObjectStore, retry_lost_race

SUMMARY_KEY = "summary"  # the key in the object's metadata
MAX_HEADLINE = 1000  # characters of a headline in the summary: Cloud Storage limits the metadata to 8 KiB
NEWEST_SUFFIX = ", the newest one"  # ends a headline if no newer snapshot is known, and none can have been overlooked
STALE_AFTER_INTERVALS = 3  # a verdict is stale when it is older than this many check intervals


class FreshnessStatus(StrEnum):
    """LATE: a delivery has missed its SLA, or the live snapshot is too old.

    STOPPED: a check stopped the newest delivery; or the feed has no valid file, so that nothing is registered or
    published. AT_RISK: any other incident is open. If none is: FRESH, EMPTY if nothing was published yet, or
    ROLLED_BACK if a rollback took a delivery out that is newer than the live ones.
    """

    FRESH = "fresh"
    AT_RISK = "at risk"
    STOPPED = "stopped"
    LATE = "late"
    ROLLED_BACK = "rolled back"
    EMPTY = "empty"


@dataclass(frozen=True)
class VerdictSummary:
    """What the page's list of all feeds shows of a verdict; the fields are those of FreshnessVerdict."""

    status: FreshnessStatus
    headline: str
    checked_at: datetime
    check_interval_s: float
    waiting: int
    is_started: bool
    due_at: datetime | None = None

    def is_overdue(self, now: datetime) -> bool:
        """Whether a delivery has missed its SLA at `now`, as far as a check that is not stale can tell."""
        return self.due_at is not None and now > self.due_at and not self.is_stale(now)

    def is_stale(self, now: datetime) -> bool:
        """Whether the verdict is old, because checks that should have replaced it did not happen."""
        return now - self.checked_at > STALE_AFTER_INTERVALS * timedelta(seconds=self.check_interval_s)


@dataclass(frozen=True)
class FreshnessVerdict:
    """The result of one check of a feed. `headline`: what readers see. `incidents`: the most important first.

    `check_interval_s`: the seconds until the next check. `next_expected_at`: the next expected arrival, None for a feed
    that has none. `waiting`: the number of deliveries that are not live yet. `due_at`: when the oldest of them must be
    live, None when none waits. `is_started`: whether a delivery has arrived, or a generation is live. `runbook`: the
    address of the runbook, which has a heading for each kind of incident.
    """

    feed: str
    status: FreshnessStatus
    headline: str
    incidents: tuple[Incident, ...]
    checked_at: datetime
    check_interval_s: float
    next_expected_at: datetime | None
    waiting: int = 0
    is_started: bool = True
    runbook: str = ""
    due_at: datetime | None = None

    @property
    def summary(self) -> VerdictSummary:
        headline = self.headline if len(self.headline) <= MAX_HEADLINE else f"{self.headline[:MAX_HEADLINE]} …"
        return VerdictSummary(
            self.status,
            headline,
            self.checked_at,
            self.check_interval_s,
            self.waiting,
            self.is_started,
            self.due_at,
        )

    def is_stale(self, now: datetime) -> bool:
        """Whether checks that should have replaced the verdict did not happen."""
        return self.summary.is_stale(now)

    def is_overdue(self, now: datetime) -> bool:
        """Whether a delivery has missed its SLA at `now`; False if the verdict is too old to tell."""
        return self.summary.is_overdue(now)

    def incidents_at(self, now: datetime, *, still_waits: bool = False) -> tuple[Incident, ...]:
        """The incidents as of `now`: an SLA that was at risk at the check, and is missed since, counts as missed.

        `still_waits`: whether the delivery that is due is known to wait at `now`, however old the verdict is.
        """
        if self.due_at is None or now <= self.due_at or (self.is_stale(now) and not still_waits):
            return self.incidents
        return tuple(
            _escalated(i, self.checked_at, self.due_at) if i.kind in ESCALATES_TO else i for i in self.incidents
        )


def _escalated(warning: Incident, checked_at: datetime, due_at: datetime) -> Incident:
    return replace(
        warning,
        kind=ESCALATES_TO[warning.kind],
        severity=Severity.ALERT,
        since=due_at,
        what=f"a snapshot was due {format_time(due_at)} and is not live. At the check of {format_time(checked_at)}: "
        f"{warning.what}",
    )


def write_verdict(store: ObjectStore, verdict: FreshnessVerdict) -> None:
    """Store the verdict, unless the verdict of a later check is stored. Raises LostRace after five lost races."""
    name = FeedLayout(verdict.feed).freshness

    def write() -> None:
        stored = store.read(name)
        with contextlib.suppress(ContractViolation):  # a stored verdict that cannot be read is replaced
            if stored and from_json(FreshnessVerdict, stored.text, where=name).checked_at > verdict.checked_at:
                return
        store.replace(
            name,
            to_json(verdict),
            expected_object_generation=stored.object_generation if stored else 0,
            metadata={SUMMARY_KEY: json.dumps(to_plain(verdict.summary))},
        )

    retry_lost_race(write)


def read_verdict(store: ObjectStore, feed: str) -> FreshnessVerdict | None:
    """The last verdict; None if there is none, or if it cannot be read (another version may have written it)."""
    with contextlib.suppress(ContractViolation):
        return store.read_record(FreshnessVerdict, FeedLayout(feed).freshness)
    return None


def read_summaries(store: ObjectStore) -> dict[str, VerdictSummary]:
    """The summary of each feed by the feed's name, from one listing. Unreadable summaries are left out."""
    summaries = {}
    for name, metadata in store.metadata(FRESHNESS_FOLDER).items():
        with contextlib.suppress(ContractViolation, ValueError, KeyError):
            plain = json.loads(metadata[SUMMARY_KEY])
            feed = name.removeprefix(FRESHNESS_FOLDER).removesuffix(".json")
            summaries[feed] = from_plain(VerdictSummary, plain, where=store.uri(name))
    return summaries
