"""Reads the indexes of all feeds from the state bucket: one read a request, none while the last one is a moment old."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json
from dedup_clone.state.index import Index
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore

KEPT_S = 3.0


@dataclass(frozen=True)
class Reading:
    """One feed's index. `problem` says why there is none although its object exists."""

    feed: str
    index: Index | None
    problem: str


@dataclass
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    reading: Reading | None = None
    object_generation: int = 0
    read_at: float = float("-inf")


class Indexes:
    """`open_store` is called once, when the first request comes. `clock` counts seconds."""

    def __init__(self, open_store: Callable[[], ObjectStore], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_store = open_store
        self._clock = clock
        self._lock = threading.Lock()
        self._store: ObjectStore | None = None
        self._feeds: list[str] = []
        self._listed_at = float("-inf")
        self._kept: dict[str, _Kept] = {}

    def all(self) -> list[Reading]:
        """Every folder of the state bucket that has an index, by name."""
        readings = [self._read(feed) for feed in self._list()]
        return [reading for reading in readings if reading is not None]

    def one(self, feed: str) -> Reading | None:
        """None when there is no such feed, or nothing is known of it yet."""
        return self._read(feed) if feed in self._list() else None

    def _list(self) -> list[str]:
        with self._lock:
            if self._store is None:
                self._store = self._open_store()
            if self._clock() - self._listed_at > KEPT_S:
                self._feeds = [folder.rstrip("/") for folder in self._store.folders("")]
                self._listed_at = self._clock()
            return self._feeds

    def _read(self, feed: str) -> Reading | None:
        with self._lock:
            kept = self._kept.setdefault(feed, _Kept())
        with kept.lock:
            if self._clock() - kept.read_at > KEPT_S:
                self._refresh(feed, kept)
                kept.read_at = self._clock()
            return kept.reading

    def _refresh(self, feed: str, kept: _Kept) -> None:
        from google.api_core.exceptions import NotFound

        if self._store is None:
            raise RuntimeError("the store is opened by whoever lists it")
        name = FeedLayout(feed).index
        try:
            stored = self._store.read_if_changed(name, kept.object_generation)
        except NotFound:
            kept.reading, kept.object_generation = None, 0
            return
        if stored is None:
            return
        kept.object_generation = stored.generation
        try:
            kept.reading = Reading(feed, from_json(Index, stored.text, where=self._store.uri(name)), "")
        except ContractViolation:
            kept.reading = Reading(
                feed, None, "Its index was written by another version of this project; the next arrival writes it anew."
            )
