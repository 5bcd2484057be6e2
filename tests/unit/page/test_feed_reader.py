"""One read of a feed's index and verdict for each request, and none while the last one is a moment old."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.records import to_json
from dedup_clone.page.feed_reader import CACHED_S, FeedReader
from dedup_clone.state.store import StoredText
from tests.page.serving import MemoryStore
from tests.unit.page.indexes import fresh, late, make_index, verdict


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_request_reads_each_object_once_and_soon_after_not_at_all() -> None:
    store, clock = MemoryStore(make_index(1000), late()), Clock()
    reader = FeedReader(lambda: store, clock)
    assert [r.feed for r in reader.read_all()] == ["product_attributes", "store_visits"]
    assert reader.read("product_attributes") is not None
    feeds = ("_status", "product_attributes", "store_visits")
    assert sorted(store.reads) == sorted(f"{feed}/{name}.json" for feed in feeds for name in ("index", "freshness"))
    assert store.listings == 1
    clock.now += CACHED_S + 1
    reader.read("product_attributes")
    assert sorted(store.reads[6:]) == ["product_attributes/freshness.json", "product_attributes/index.json"]


def test_a_changed_index_is_seen_and_an_unchanged_one_is_not_parsed_again() -> None:
    store, clock = MemoryStore(fresh()), Clock()
    reader = FeedReader(lambda: store, clock)
    first = reader.read("product_attributes")
    clock.now += CACHED_S + 1
    unchanged = reader.read("product_attributes")
    assert first is not None
    assert unchanged is not None
    assert unchanged.index is first.index
    store.texts["product_attributes/index.json"] = StoredText(to_json(replace(fresh(), owner="somebody")), 2)
    clock.now += CACHED_S + 1
    again = reader.read("product_attributes")
    assert again is not None
    assert again.index is not None
    assert again.index.owner == "somebody"


def test_an_index_of_another_version_is_a_problem_of_its_feed_alone() -> None:
    store = MemoryStore(fresh())
    store.texts["older/index.json"] = StoredText("{}", 1)
    found = {r.feed: r for r in FeedReader(lambda: store, Clock()).read_all()}
    assert found["product_attributes"].index is not None
    assert found["older"].index is None
    assert "Another version" in found["older"].problem


def test_a_folder_without_index_is_no_feed() -> None:
    store = MemoryStore(fresh())
    reader = FeedReader(lambda: store, Clock())
    assert reader.read("_status") is None
    assert reader.read("nobody") is None
    assert "nobody/index.json" not in store.reads


def test_a_verdict_is_read_beside_the_index_and_one_of_another_version_is_none() -> None:
    stored, clock = verdict("product_attributes"), Clock()
    store = MemoryStore(fresh(), verdicts=(stored,))
    reader = FeedReader(lambda: store, clock)
    found = reader.read("product_attributes")
    assert found is not None
    assert found.verdict == stored
    store.texts["product_attributes/freshness.json"] = StoredText("{}", 2)
    clock.now += CACHED_S + 1
    found = reader.read("product_attributes")
    assert found is not None
    assert found.index is not None
    assert found.verdict is None
