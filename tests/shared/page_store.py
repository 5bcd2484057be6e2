"""Replaces the state bucket by one in memory, for tests of the page Snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from dedup_clone.contract.kind import Kind
from dedup_clone.contract.records import to_json, to_plain
from dedup_clone.freshness.verdict import SUMMARY_KEY, FreshnessVerdict
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.index import Index
from dedup_clone.state.store import ObjectInfo, ObjectStore, StoredText
from tests.shared import page_indexes


class MemoryStore:
    """A state bucket in memory. `reads`: the names that were read. `listings`: how often names were listed."""

    bucket = "state"

    def __init__(self, *indexes: Index, verdicts: tuple[FreshnessVerdict, ...] = ()) -> None:
        self.texts = {f"{index.feed}/index.json": StoredText(to_json(index), 1) for index in indexes}
        self.texts |= {f"_freshness/{verdict.feed}.json": StoredText(to_json(verdict), 1) for verdict in verdicts}
        self.summaries = {f"_freshness/{v.feed}.json": json.dumps(to_plain(v.summary)) for v in verdicts}
        self.reads: list[str] = []
        self.listings = 0

    def uri(self, name: str) -> str:
        return f"gs://state/{name}"

    def folders(self, prefix: str) -> list[str]:
        self.listings += 1
        return sorted({f"{name.split('/')[0]}/" for name in self.texts} | {"_status/"})

    def metadata(self, prefix: str) -> dict[str, dict[str, str]]:
        self.listings += 1
        return {name: {SUMMARY_KEY: text} for name, text in self.summaries.items() if name.startswith(prefix)}

    def read_if_changed(self, name: str, known_object_generation: int) -> StoredText | None:
        from google.api_core.exceptions import NotFound

        self.reads.append(name)
        if name not in self.texts:
            raise NotFound(name)
        stored = self.texts[name]
        return None if stored.object_generation == known_object_generation else stored

    def objects(self, prefix: str) -> Iterator[ObjectInfo]:
        self.listings += 1
        names = sorted(name for name in self.texts if name.startswith(prefix))
        return (ObjectInfo(name, 1, "", 0, page_indexes.NOW) for name in names)

    def read(self, name: str) -> StoredText | None:
        self.reads.append(name)
        return self.texts.get(name)

    def read_record(self, kind: Any, name: str) -> Any:
        return ObjectStore.read_record(self, kind, name)  # type: ignore[arg-type]

    def read_reports(self, kind: Any, names: Sequence[str]) -> Any:
        return ObjectStore.read_reports(self, kind, names)  # type: ignore[arg-type]


def at_work(now: datetime) -> MemoryStore:
    """A store with a feed whose publish run holds the lease, and whose Spark job has done 12 of 730 dates."""
    acquired_at = now - timedelta(minutes=9)
    run = ("product_attributes_publish", "publish__1")
    intent = Intent(Kind.PUBLISH, *run, "00000121-a", 120, 121, acquired_at, ())
    store = MemoryStore(page_indexes.fresh(now), verdicts=page_indexes.verdicts(now)[:1])
    current = Current("product_attributes", 120, "digest", 121, intent)
    store.texts["product_attributes/CURRENT"] = StoredText(to_json(current), 1)
    progress = {"phase": "compare", "done": 12, "of": 730, "at": now.isoformat(timespec="seconds")}
    store.texts["product_attributes/attempts/00000121-a/progress.json"] = StoredText(json.dumps(progress), 1)
    return store
