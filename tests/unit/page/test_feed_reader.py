"""One read of a feed's index, verdict and CURRENT for each request, and none while the last one is a moment old.

For the list of all feeds two listings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.records import to_json
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.page.feed_view import feed_summary, page_view
from dedup_clone.state.current import Current
from dedup_clone.state.store import StoredText
from tests.shared.page_indexes import NOW, fresh, late, make_index, verdict
from tests.shared.page_store import MemoryStore, at_work
from tests.thoroughness import times


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_request_reads_each_object_once_and_soon_after_not_at_all() -> None:
    store, clock = MemoryStore(make_index(1000), late()), Clock()
    reader = FeedReader(lambda: store, clock)
    objects = [
        "_freshness/product_attributes.json",
        "product_attributes/CURRENT",
        "product_attributes/index.json",
    ]
    for count in (1, 2):
        assert reader.read("product_attributes") is not None
        assert reader.read("product_attributes") is not None
        assert sorted(store.reads) == sorted(objects * count)
        clock.now += 6


def test_the_list_of_many_feeds_takes_two_listings() -> None:
    feeds, index = [f"feed_{number:03}" for number in range(times(20, 200))], fresh()
    store = MemoryStore(*[replace(index, feed=feed) for feed in feeds], verdicts=tuple(map(verdict, feeds)))
    overviews = FeedReader(lambda: store, Clock()).overview()
    assert [overview.feed for overview in overviews] == feeds
    assert all(overview.summary for overview in overviews)
    assert (store.listings, store.reads) == (2, [])


def test_a_feed_that_was_not_checked_yet_is_listed_by_its_index() -> None:
    store = MemoryStore(fresh(), late(), verdicts=(verdict("product_attributes"),))
    listed = FeedReader(lambda: store, Clock()).overview()
    assert [(o.feed, o.summary is None, o.waiting) for o in listed] == [
        ("product_attributes", False, 0),
        ("store_visits", True, 1),
    ]
    (_, unchecked) = listed
    assert "has not checked this feed yet" in feed_summary(unchecked, NOW)["headline"]
    records = FeedReader(lambda: store, Clock()).read("store_visits")
    assert records is not None
    assert "has not checked this feed yet" in page_view(records, NOW)["freshness"]["headline"]


@pytest.mark.parametrize("status", [FreshnessStatus.EMPTY, FreshnessStatus.AT_RISK, FreshnessStatus.STOPPED])
def test_a_feed_without_deliveries_is_listed_as_soon_as_it_was_checked(status: FreshnessStatus) -> None:
    checked = verdict("sales", status, is_started=False)
    reader = FeedReader(lambda: MemoryStore(late(), verdicts=(checked,)), Clock())
    assert [(o.feed, o.summary) for o in reader.overview()] == [("sales", checked.summary), ("store_visits", None)]
    records = reader.read("sales")
    assert records is not None
    assert (records.index, records.verdict) == (None, checked)


def test_a_changed_index_is_seen_and_an_unchanged_one_is_not_parsed_again() -> None:
    store, clock = MemoryStore(fresh()), Clock()
    reader = FeedReader(lambda: store, clock)
    first = reader.read("product_attributes")
    clock.now += 6
    unchanged = reader.read("product_attributes")
    assert first is not None
    assert unchanged is not None
    assert unchanged.index is first.index
    store.texts["product_attributes/index.json"] = StoredText(to_json(replace(fresh(), owner="somebody")), 2)
    clock.now += 6
    again = reader.read("product_attributes")
    assert again is not None
    assert again.index is not None
    assert again.index.owner == "somebody"


def test_a_damaged_index_or_verdict_hides_nothing_else() -> None:
    stored, clock = verdict("product_attributes"), Clock()
    store = MemoryStore(fresh(), verdicts=(stored,))
    store.texts["damaged/index.json"] = StoredText("{}", 1)
    reader = FeedReader(lambda: store, clock)
    assert [overview.feed for overview in reader.overview()] == ["product_attributes"]
    for expected in (stored, None):
        records = reader.read("product_attributes")
        assert records is not None
        assert records.index is not None
        assert records.verdict == expected
        store.texts["_freshness/product_attributes.json"] = StoredText("{}", 2)
        clock.now += 6
    assert reader.read("_status") is None
    assert reader.read("nobody") is None, "a folder without index is no feed"
    assert "nobody/index.json" not in store.reads


def test_how_far_the_dedup_job_is_is_read_while_a_run_holds_the_lease_and_as_far_as_it_is_known() -> None:
    store, clock = at_work(NOW), Clock()
    reader = FeedReader(lambda: store, clock)

    def running() -> Any:
        clock.now += 6
        records = reader.read("product_attributes")
        assert records is not None
        return page_view(records, NOW)["running"]

    found = running()
    assert (found["run_id"], found["dates"]["done"], found["dates"]["of"]) == ("publish__1", 12, 730)
    progress, current = "product_attributes/attempts/00000121-a/progress.json", "product_attributes/CURRENT"
    for text in ("{", '{"phase": "scan"}'):
        store.texts[progress] = StoredText(text, store.texts[progress].object_generation + 1)
        assert running()["dates"] is None
    del store.texts[progress]
    assert running()["dates"] is None
    store.texts[current] = StoredText(to_json(Current("product_attributes", 121, "digest", 121, None)), 2)
    assert running() is None
