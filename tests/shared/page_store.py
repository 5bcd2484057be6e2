"""Replaces the state bucket by one in memory, for tests of the page Snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Arrival, LandedObject
from dedup_clone.contract.records import to_json
from dedup_clone.freshness.verdict import FreshnessVerdict
from dedup_clone.page.feed_reader import FeedRecords, ListedDelivery
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectInfo, ObjectStore, StoredText
from tests.shared import page_feeds


def objects_of(records: FeedRecords) -> dict[str, object]:
    """The records of a feed by the names of their objects, with the verdict's."""
    feed = records.verdict.feed
    layout = FeedLayout(feed)
    objects: dict[str, object] = {layout.freshness: records.verdict}
    if records.verdict.feed_file is None:
        return objects
    last_generation = max((record.generation for record in records.attempts), default=0)
    generation = records.live.generation if records.live else None
    objects[layout.current] = Current(feed, generation, "digest", last_generation, records.intent)
    if records.live:
        objects[layout.manifest(records.live.generation)] = records.live
    objects |= {layout.ledger_record(record.attempt): record for record in records.attempts}
    for listed in records.deliveries:
        objects[layout.arrival(listed.delivery)] = inventory(feed, listed)
        if listed.refusal:
            refused = Refusal(listed.delivery, listed.refusal, listed.arrived_at)
            objects[layout.refusal(listed.delivery)] = refused
    for attempt, phases in records.results.items():
        objects |= {layout.check_results(attempt, results.phase): results for results in phases}
    objects |= {layout.held_delivery(held.delivery): held for held in records.verdict.held}
    if records.audits is not None:
        objects[layout.audits] = records.audits
    return objects


def inventory(feed: str, listed: ListedDelivery) -> Arrival:
    folder = f"snapshot_id={listed.delivery.snapshot_id}/"
    sizes = [listed.bytes - (listed.files - 1), *[1] * (listed.files - 1)]
    files = [LandedObject(f"{folder}{number}.parquet", 1, "", size) for number, size in enumerate(sizes)]
    return Arrival(feed, listed.delivery, "landing", folder, "_SUCCESS", listed.arrived_at, tuple(files), ())


class MemoryStore:
    """A state bucket in memory. `reads`: the names that were read. `listings`: how often names were listed.

    `verdicts`: take the place of those of the feeds.
    """

    bucket = "state"

    def __init__(self, *feeds: FeedRecords, verdicts: tuple[FreshnessVerdict, ...] = ()) -> None:
        self.texts: dict[str, StoredText] = {}
        self.reads: list[str] = []
        self.listings = 0
        for records in feeds:
            self.store_feed(records)
        for verdict in verdicts:
            known = next((r.verdict for r in feeds if r.verdict.feed == verdict.feed), verdict)
            self.store_verdict(
                replace(verdict, feed_file=known.feed_file, stopped=known.stopped, held=verdict.held or known.held)
            )

    def store_feed(self, records: FeedRecords) -> None:
        """Store a feed's records, or other ones than before."""
        for name, record in objects_of(records).items():
            before = self.texts.get(name)
            self.texts[name] = StoredText(to_json(record), before.object_generation + 1 if before else 1)
        self.store_verdict(records.verdict)

    def store_verdict(self, verdict: FreshnessVerdict) -> None:
        name = FeedLayout(verdict.feed).freshness
        before = self.texts.get(name)
        self.texts[name] = StoredText(to_json(verdict), before.object_generation + 1 if before else 1)

    def uri(self, name: str) -> str:
        return f"gs://state/{name}"

    def objects(self, prefix: str, *, first: str = "") -> Iterator[ObjectInfo]:
        self.listings += 1
        names = sorted(name for name in self.texts if name.startswith(prefix) and name >= first)
        return (ObjectInfo(name, self.texts[name].object_generation, "", 0, page_feeds.NOW) for name in names)

    def read(self, name: str) -> StoredText | None:
        self.reads.append(name)
        return self.texts.get(name)

    def read_record(self, kind: Any, name: str) -> Any:
        return ObjectStore.read_record(self, kind, name)  # type: ignore[arg-type]

    def read_reports(self, kind: Any, names: Sequence[str]) -> Any:
        return ObjectStore.read_reports(self, kind, names)  # type: ignore[arg-type]


def at_work(now: datetime) -> MemoryStore:
    """A store with a feed whose publish run holds the lease, and whose Spark job has done 12 of 730 tasks."""
    acquired_at = now - timedelta(minutes=9)
    run = ("product_attributes_publish", "publish__1")
    intent = Intent(Kind.PUBLISH, *run, "00000121-a", 120, 121, acquired_at, ())
    store = MemoryStore(replace(page_feeds.fresh(now), intent=intent), verdicts=page_feeds.verdicts(now)[:1])
    progress = {"phase": "compare", "done": 12, "of": 730, "at": now.isoformat(timespec="seconds")}
    store.texts["product_attributes/attempts/00000121-a/progress.json"] = StoredText(json.dumps(progress), 1)
    return store
