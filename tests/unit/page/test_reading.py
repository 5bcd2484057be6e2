"""One read of index.json for each feed and request, and none while the last one is a moment old."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.records import to_json
from dedup_clone.page.reading import KEPT_S, Indexes
from dedup_clone.state.store import StoredText
from tests.page.serving import MemoryStore
from tests.unit.page.indexes import fresh, late, make_index


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_look_reads_each_index_once_and_soon_after_not_at_all() -> None:
    store, clock = MemoryStore(make_index(1000), late()), Clock()
    indexes = Indexes(lambda: store, clock)
    assert [r.feed for r in indexes.all()] == ["product_attributes", "store_visits"]
    assert indexes.one("product_attributes") is not None
    assert sorted(store.reads) == ["_status/index.json", "product_attributes/index.json", "store_visits/index.json"]
    assert store.listings == 1
    clock.now += KEPT_S + 1
    indexes.one("product_attributes")
    assert store.reads[3:] == ["product_attributes/index.json"]


def test_a_changed_index_is_seen_and_an_unchanged_one_is_not_parsed_again() -> None:
    store, clock = MemoryStore(fresh()), Clock()
    indexes = Indexes(lambda: store, clock)
    first = indexes.one("product_attributes")
    clock.now += KEPT_S + 1
    assert indexes.one("product_attributes") is first
    store.texts["product_attributes/index.json"] = StoredText(to_json(replace(fresh(), owner="somebody")), 2)
    clock.now += KEPT_S + 1
    again = indexes.one("product_attributes")
    assert again is not None
    assert again.index is not None
    assert again.index.owner == "somebody"


def test_an_index_of_another_version_is_a_problem_of_its_feed_alone() -> None:
    store = MemoryStore(fresh())
    store.texts["older/index.json"] = StoredText("{}", 1)
    found = {r.feed: r for r in Indexes(lambda: store, Clock()).all()}
    assert found["product_attributes"].index is not None
    assert found["older"].index is None
    assert "another version" in found["older"].problem


def test_a_folder_without_index_is_no_feed() -> None:
    store = MemoryStore(fresh())
    indexes = Indexes(lambda: store, Clock())
    assert indexes.one("_status") is None
    assert indexes.one("nobody") is None
    assert "nobody/index.json" not in store.reads
