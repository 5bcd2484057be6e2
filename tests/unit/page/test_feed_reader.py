"""What the page reads: objects that change once for each request, those that are written once never again.

Nothing while the last request is a moment old. For the list of all feeds one listing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.records import to_json
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.page.feed_reader import DeliveryState, FeedReader, FeedRecords, ListedDelivery
from dedup_clone.page.feed_view import page_view
from dedup_clone.state.current import Current
from dedup_clone.state.store import StoredText
from tests.shared.page_feeds import NOW, fresh, late, make_feed, verdict
from tests.shared.page_store import MemoryStore, at_work
from tests.thoroughness import times


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CHANGING = [
    "_freshness/product_attributes.json",
    "product_attributes/AUDITS",
    "product_attributes/CURRENT",
]


def test_what_is_written_once_is_read_once_and_soon_after_a_request_nothing_is_read() -> None:
    store, clock = MemoryStore(make_feed(1000), late()), Clock()
    reader = FeedReader(lambda: store, clock)
    first = reader.read("product_attributes")
    assert reader.read("product_attributes") is first
    # 100 attempts and arrivals, ten attempts with two phases of checks, the live manifest.
    assert len(store.reads) == len(CHANGING) + 100 + 100 + 20 + 1
    assert store.listings == 5  # summaries, ledger, arrivals, refused and held deliveries
    for _ in range(2):
        clock.now += 6
        store.reads.clear()
        assert reader.read("product_attributes") == first
        assert sorted(store.reads) == CHANGING


def test_a_new_publish_is_read_and_nothing_that_is_known() -> None:
    store, clock = MemoryStore(make_feed(120)), Clock()
    reader = FeedReader(lambda: store, clock)
    reader.read("product_attributes")
    store.store_feed(make_feed(121))
    store.reads.clear()
    clock.now += 6
    again = reader.read("product_attributes")
    assert again is not None
    assert again.published[-1].generation == 121
    feed = "product_attributes"
    attempt = "00000121-a1b2c3"
    assert sorted(set(store.reads) - set(CHANGING)) == [
        f"{feed}/arrivals/2121-1795000000000121.json",
        f"{feed}/attempts/{attempt}/checks_after.json",
        f"{feed}/attempts/{attempt}/checks_before.json",
        f"{feed}/ledger/{attempt}.json",
        f"{feed}/manifests/00000121.json",
    ]


def test_a_correction_of_an_old_snapshot_is_listed_with_what_arrived_last() -> None:
    """It can only be replayed from the page, or be seen among the day's arrivals, if it is listed."""
    records = make_feed(1000)
    correction = ListedDelivery(Delivery(1500, 1795000000009999), NOW, 1, 10, DeliveryState.PUBLISHED)
    assert records.live is not None
    live = replace(records.live, deliveries=(*records.live.deliveries, correction.delivery))
    store = MemoryStore(replace(records, live=live, deliveries=(*records.deliveries, correction)))
    found = FeedReader(lambda: store, Clock()).read("product_attributes")
    assert found is not None
    assert found.deliveries[-1] == correction
    assert [listed.delivery.snapshot_id for listed in found.deliveries[-2:]] == [3000, 1500]


@pytest.mark.parametrize("records", [fresh(), late(), late(is_held=True), make_feed(1, 1)])
def test_everything_is_read_from_the_objects_that_hold_it(records: FeedRecords) -> None:
    assert FeedReader(lambda: MemoryStore(records), Clock()).read(records.verdict.feed) == records


def test_check_results_from_before_an_erasure_are_not_shown() -> None:
    records = fresh()
    attempts = records.attempts
    erased = replace(records, attempts=(*attempts[:-1], replace(attempts[-1], kind=Kind.ERASE)))
    found = FeedReader(lambda: MemoryStore(erased), Clock()).read(records.verdict.feed)
    assert found is not None
    assert [attempt[:8] for attempt in found.results] == ["00000120"]
    by = {g["generation"]: g["restorable"] for g in page_view(found, NOW)["publishes"]}
    assert (by[120], by[119]) == ("time travel", None)


def test_the_live_generation_is_found_however_many_attempts_failed_since() -> None:
    records = fresh()
    store = MemoryStore(records)
    text = to_json(Current("product_attributes", 120, "digest", 400, None))
    store.texts["product_attributes/CURRENT"] = StoredText(text, 2)
    found = FeedReader(lambda: store, Clock()).read("product_attributes")
    assert found is not None
    assert page_view(found, NOW)["live"]["generation"] == 120


def test_the_list_of_many_feeds_takes_one_listing() -> None:
    feeds = [f"feed_{number:03}" for number in range(times(20, 200))]
    store = MemoryStore(*[replace(make_feed(1, 1, feed=feed)) for feed in feeds])
    overviews = FeedReader(lambda: store, Clock()).overview()
    assert list(overviews) == feeds
    assert all(overviews.values())
    assert (store.listings, store.reads) == (1, [])


@pytest.mark.parametrize("status", [FreshnessStatus.EMPTY, FreshnessStatus.AT_RISK, FreshnessStatus.STOPPED])
def test_a_feed_without_deliveries_is_listed_as_soon_as_it_was_checked(status: FreshnessStatus) -> None:
    checked = verdict("sales", status)
    reader = FeedReader(lambda: MemoryStore(verdicts=(checked,)), Clock())
    assert reader.overview() == {"sales": checked.summary}
    records = reader.read("sales")
    assert records is not None
    assert records == FeedRecords(checked)


def test_a_damaged_object_hides_nothing_else() -> None:
    clock, whole = Clock(), fresh()
    store = MemoryStore(whole)
    store.texts["other/CURRENT"] = StoredText("{}", 1)
    for name in ("AUDITS", "ledger/00000119-a1b2c3.json", "arrivals/2119-1795000000000119.json"):
        store.texts[f"product_attributes/{name}"] = StoredText("{}", 2)
    reader = FeedReader(lambda: store, clock)
    assert list(reader.overview()) == ["product_attributes"]
    records = reader.read("product_attributes")
    assert records is not None
    assert records.verdict == whole.verdict
    assert (records.audits, len(records.attempts)) == (None, 99)
    assert len(records.deliveries) == 99
    store.texts["_freshness/product_attributes.json"] = StoredText("{}", 3)
    clock.now += 6
    assert reader.read("product_attributes") is None, "the next check replaces the verdict"
    assert reader.read("_status") is None
    assert reader.read("nobody") is None, "a folder without verdict is no feed"


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
    store.texts[current] = StoredText(to_json(Current("product_attributes", 120, "digest", 121, None)), 2)
    assert running() is None
