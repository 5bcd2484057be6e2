"""Reads what the page shows from the state bucket.

The records of a feed are cached for a few seconds; after that, listings, new objects and objects that have changed are
read again. The list of all feeds needs one listing, however many feeds there are.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from dedup_clone.freshness.verdict import FreshnessVerdict, read_summaries
from dedup_clone.page.feed_history import FeedHistory, FeedObjects, read_history
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore

CACHED_S = 3.0  # for this time, records and listings are not read again


@dataclass(frozen=True)
class JobProgress:
    """What the Spark job writes every few seconds: `done` of `of` dates are done in `phase`. `of`: 0 if unknown.

    `at`: when the job wrote it.
    """

    phase: str
    done: int
    of: int
    at: datetime


@dataclass(frozen=True)
class FeedRecords:
    """The stored records of one feed.

    `intent`: the run that holds the lease, `progress`: how far its dedup job is; None without a run, or if that is not
    known. `history`: None unless the verdict says what the feed's file holds.
    """

    verdict: FreshnessVerdict
    intent: Intent | None = None
    progress: JobProgress | None = None
    history: FeedHistory | None = None


class FeedReader:
    """Reads the records of all feeds. `open_store`: returns the state bucket; called once, by the first request.

    `clock`: returns a time in seconds, to measure the age of cached records.
    """

    def __init__(self, open_store: Callable[[], ObjectStore], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_store = functools.cache(open_store)
        self._clock = clock
        self._overview: tuple[float, dict[str, FreshnessVerdict]] = (float("-inf"), {})
        self._feeds: dict[str, _CachedFeed] = {}

    def overview(self) -> dict[str, FreshnessVerdict]:
        """The summary of each feed's verdict, ordered by the feed's name."""
        read_at, found = self._overview
        if self._clock() - read_at > CACHED_S:
            found = dict(sorted(read_summaries(self._open_store()).items()))
            self._overview = (self._clock(), found)
        return found

    def read(self, feed: str) -> FeedRecords | None:
        """The records of one feed; None if it has no verdict, or if the verdict cannot be read."""
        if feed not in self.overview():
            return None
        cached = self._feeds.setdefault(feed, _CachedFeed(FeedObjects(self._open_store())))
        with cached.lock:
            if self._clock() - cached.read_at > CACHED_S:
                cached.records = _read_feed(cached.objects, FeedLayout(feed))
                cached.read_at = self._clock()
            return cached.records


@dataclass
class _CachedFeed:
    """`records`: as they were at `read_at`, by the clock of FeedReader."""

    objects: FeedObjects
    records: FeedRecords | None = None
    read_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


def _read_feed(objects: FeedObjects, layout: FeedLayout) -> FeedRecords | None:
    objects.begin()
    verdict = objects.read(FreshnessVerdict, layout.freshness)
    if verdict is None:
        return None
    current = objects.read(Current, layout.current) or Current(layout.feed, None, None, 0, None)
    intent = current.intent
    return FeedRecords(
        verdict=verdict,
        intent=intent,
        progress=objects.read(JobProgress, layout.progress(intent.attempt)) if intent else None,
        history=read_history(objects, current, verdict.feed_file) if verdict.feed_file else None,
    )
