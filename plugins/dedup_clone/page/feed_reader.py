"""Reads what the page shows from the state bucket: the index, verdict, CURRENT and progress of feeds.

Objects are cached for a few seconds; after that, an object is read again only if it has changed. The list of all feeds
needs two listings of objects, however many feeds there are, and the records of each feed of which the watchdog has seen
neither a delivery nor a live generation.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json
from dedup_clone.freshness.verdict import FreshnessVerdict, read_summaries
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.index import DeliveryState, Index
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore, in_parallel

CACHED_S = 3.0  # for this time, cached objects and listings are not read again
_FEED_FOLDER = re.compile("[a-z][a-z0-9_]*/")  # other folders of the state bucket belong to no feed
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeedRecords:
    """The stored records of one feed. `index`: None if there is none. `verdict`: None if the watchdog has stored none.

    `intent`: the run that holds the lease; None if no run does. `progress`: how far that run's dedup job is; None if
    that is not known.
    """

    feed: str
    index: Index | None
    verdict: FreshnessVerdict | None
    intent: Intent | None = None
    progress: JobProgress | None = None


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
class FeedOverview:
    """A feed in the list of all feeds. `summary`: None if nothing is known of its freshness.

    `waiting`: the number of deliveries that were not live yet at the watchdog's last check; without such a check, or if
    it saw neither a delivery nor a live generation, the number that the index has.
    """

    feed: str
    summary: FreshnessVerdict | None
    waiting: int


@dataclass
class _CachedObject(Generic[T]):
    """The content of an object as last read; None, and object generation 0, if there is no such object.

    A damaged object is logged and counts as absent, so that it hides nothing else of the page.
    """

    name: str
    record_type: type[T]
    record: T | None = None
    object_generation: int = 0

    def refresh(self, store: ObjectStore) -> None:
        """Read the object again if it has changed."""
        from google.api_core.exceptions import NotFound

        try:
            stored = store.read_if_changed(self.name, self.object_generation)
        except NotFound:
            self.record, self.object_generation = None, 0
            return
        if stored is None:
            return
        self.object_generation = stored.object_generation
        try:
            self.record = from_json(self.record_type, stored.text, where=store.uri(self.name))
        except ContractViolation as error:
            log.warning("%s", error)
            self.record = None


@dataclass
class _CachedFeed:
    """The objects of one feed. `progress`: of the dedup job of the run with the lease; None without such a run.

    `read_at`: when the objects were last read, by the clock of FeedReader.
    """

    layout: FeedLayout
    index: _CachedObject[Index]
    verdict: _CachedObject[FreshnessVerdict]
    current: _CachedObject[Current]
    progress: _CachedObject[JobProgress] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    read_at: float = float("-inf")

    @property
    def intent(self) -> Intent | None:
        return self.current.record.intent if self.current.record else None

    def refresh(self, store: ObjectStore) -> None:
        objects: list[_CachedObject[Any]] = [self.index, self.verdict, self.current]
        in_parallel(lambda cached: cached.refresh(store), objects)
        name = self.layout.progress(self.intent.attempt) if self.intent else ""
        if self.progress is None or self.progress.name != name:
            self.progress = _CachedObject(name, JobProgress) if name else None
        if self.progress is not None:
            self.progress.refresh(store)

    def records(self) -> FeedRecords | None:
        """The records as last read; None without index and verdict."""
        index, verdict = self.index.record, self.verdict.record
        if not (index or verdict):
            return None
        return FeedRecords(
            feed=self.layout.feed,
            index=index,
            verdict=verdict,
            intent=self.intent,
            progress=self.progress.record if self.progress else None,
        )


class FeedReader:
    """Reads the records of all feeds. `open_store`: returns the state bucket; called once, by the first request.

    `clock`: returns a time in seconds, to measure the age of cached objects.
    """

    def __init__(self, open_store: Callable[[], ObjectStore], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_store = open_store
        self._clock = clock
        self._lock = threading.Lock()
        self._store: ObjectStore | None = None
        self._feeds: list[str] = []
        self._summaries: dict[str, FreshnessVerdict] = {}
        self._listed_at = float("-inf")
        self._cache: dict[str, _CachedFeed] = {}

    def overview(self) -> list[FeedOverview]:
        """Every feed of which the watchdog has seen a delivery or a live generation, ordered by name.

        Also every other feed that has an index or a verdict; the records of these feeds are read.
        """
        store, feeds = self._store_and_feeds()
        overviews = {f: FeedOverview(f, s, s.waiting) for f, s in self._summaries.items() if s.is_started}
        for records in in_parallel(lambda f: self._read(store, f), [f for f in feeds if f not in overviews]):
            if records is not None:
                arrivals = records.index.arrivals if records.index else ()
                waiting = sum(arrival.state is DeliveryState.WAITING for arrival in arrivals)
                summary = self._summaries.get(records.feed)
                overviews[records.feed] = FeedOverview(records.feed, summary, waiting)
        return [overviews[feed] for feed in feeds if feed in overviews]

    def read(self, feed: str) -> FeedRecords | None:
        """The records of one feed; None if it has neither an index nor a verdict."""
        store, feeds = self._store_and_feeds()
        return self._read(store, feed) if feed in feeds else None

    def _store_and_feeds(self) -> tuple[ObjectStore, list[str]]:
        """The state bucket and the names of all feeds. Lists feeds and summaries again if they were cached too long."""
        with self._lock:
            if self._store is None:
                self._store = self._open_store()
            if self._clock() - self._listed_at > CACHED_S:
                folders = self._store.folders("")
                self._summaries = read_summaries(self._store)
                with_folder = {folder.rstrip("/") for folder in folders if _FEED_FOLDER.fullmatch(folder)}
                self._feeds = sorted(with_folder | self._summaries.keys())
                self._listed_at = self._clock()
            return self._store, self._feeds

    def _read(self, store: ObjectStore, feed: str) -> FeedRecords | None:
        """The feed's records, as cached if they were read at most CACHED_S ago; None as in `_CachedFeed.records`."""
        with self._lock:
            if feed not in self._cache:
                layout = FeedLayout(feed)
                self._cache[feed] = _CachedFeed(
                    layout,
                    _CachedObject(layout.index, Index),
                    _CachedObject(layout.freshness, FreshnessVerdict),
                    _CachedObject(layout.current, Current),
                )
            cached = self._cache[feed]
        with cached.lock:
            if self._clock() - cached.read_at > CACHED_S:
                cached.refresh(store)
                cached.read_at = self._clock()
            return cached.records()
