"""FreshnessVerdict: the result of the last check of a feed, stored as freshness.json and shown on the page."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.freshness.incident import Incident
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore, retry_lost_race

VERDICT_VERSION = 1
STALE_AFTER_INTERVALS = 3  # a verdict is stale when it is older than this many check intervals


class FreshnessStatus(StrEnum):
    """LATE: a delivery has missed its SLA, or the live snapshot is too old. AT_RISK: any other incident is open.

    EMPTY: nothing was published yet, and nothing is wrong.
    """

    FRESH = "fresh"
    AT_RISK = "at risk"
    LATE = "late"
    EMPTY = "empty"


@dataclass(frozen=True)
class FreshnessVerdict:
    """`headline` says what readers see, `incidents` what is wrong, most important first.

    `next_expected_at`: the next expected arrival, None for a feed that has none.
    """

    format_version: int
    feed: str
    status: FreshnessStatus
    headline: str
    incidents: tuple[Incident, ...]
    checked_at: datetime
    check_interval_s: float
    next_expected_at: datetime | None

    def is_stale(self, now: datetime) -> bool:
        """Whether the verdict is old, because checks that should have replaced it did not happen."""
        return now - self.checked_at > STALE_AFTER_INTERVALS * timedelta(seconds=self.check_interval_s)


def write_verdict(store: ObjectStore, verdict: FreshnessVerdict) -> None:
    """Store the verdict, unless the verdict of a later check is stored. Raises LostRace after five lost races."""
    name = FeedLayout(verdict.feed).freshness

    def write() -> None:
        stored = store.read(name)
        with contextlib.suppress(ContractViolation):  # written by another version: replace it
            if stored and from_json(FreshnessVerdict, stored.text, where=name).checked_at > verdict.checked_at:
                return
        store.replace(name, to_json(verdict), expected_object_generation=stored.object_generation if stored else 0)

    retry_lost_race(write)
