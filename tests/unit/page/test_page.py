"""What the page takes from the ledger and how each view words it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.records import to_json
from dedup_clone.contract.table import PartitionBy
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState, FreshnessStatus, FreshnessVerdict
from dedup_clone.page.feed_reader import DeliveryState, FeedReader, FeedRecords, ListedDelivery
from dedup_clone.page.feed_view import page_view
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.store import StoredText
from tests.shared.page_feeds import NOW, fresh, late, make_feed, verdict, with_feed_file
from tests.shared.page_store import MemoryStore, at_work
from tests.thoroughness import times

CHANGING = [
    "_freshness/product_attributes.json",
    "product_attributes/AUDITS",
    "product_attributes/CURRENT",
]


def test_what_is_written_once_is_read_once() -> None:
    store = MemoryStore(make_feed(1000), late())
    reader = FeedReader(lambda: store)
    first = reader.read("product_attributes")
    # 100 attempts and arrivals, ten attempts with two phases of checks, the live manifest.
    assert len(store.reads) == len(CHANGING) + 100 + 100 + 20 + 1
    assert store.listings == 4  # ledger, arrivals, refused and held deliveries
    for _ in range(2):
        store.reads.clear()
        store.listings = 0
        assert reader.read("product_attributes") == first
        assert (sorted(store.reads), store.listings) == (CHANGING, 4)


def test_a_new_publish_is_read_and_nothing_that_is_known() -> None:
    store = MemoryStore(make_feed(120))
    reader = FeedReader(lambda: store)
    reader.read("product_attributes")
    store.store_feed(make_feed(121))
    store.reads.clear()
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
    found = FeedReader(lambda: store).read("product_attributes")
    assert found is not None
    assert found.deliveries[-1] == correction
    assert [listed.delivery.snapshot_id for listed in found.deliveries[-2:]] == [3000, 1500]


@pytest.mark.parametrize("records", [fresh(), late(), late(is_held=True), make_feed(1, 1)])
def test_everything_is_read_from_the_objects_that_hold_it(records: FeedRecords) -> None:
    assert FeedReader(lambda: MemoryStore(records)).read(records.verdict.feed) == records


def test_check_results_from_before_an_erasure_are_not_shown() -> None:
    records = fresh()
    attempts = records.attempts
    erased = replace(records, attempts=(*attempts[:-1], replace(attempts[-1], kind=Kind.ERASE)))
    found = FeedReader(lambda: MemoryStore(erased)).read(records.verdict.feed)
    assert found is not None
    assert [attempt[:8] for attempt in found.results] == ["00000120"]
    by = {g["generation"]: g["restorable"] for g in page_view(found, NOW)["publishes"]}
    assert (by[120], by[119]) == ("time travel", None)


def test_the_live_generation_is_found_however_many_attempts_failed_since() -> None:
    records = fresh()
    store = MemoryStore(records)
    text = to_json(Current("product_attributes", 120, "digest", 400, None))
    store.texts["product_attributes/CURRENT"] = StoredText(text, 2)
    found = FeedReader(lambda: store).read("product_attributes")
    assert found is not None
    assert page_view(found, NOW)["live"]["generation"] == 120


def test_the_list_of_many_feeds_takes_one_listing_and_the_verdicts_that_are_new() -> None:
    feeds = [f"feed_{number:03}" for number in range(times(20, 200))]
    store = MemoryStore(*[replace(make_feed(1, 1, feed=feed)) for feed in feeds])
    reader = FeedReader(lambda: store)
    assert [found.feed for found in reader.overview()] == feeds
    assert (store.listings, len(store.reads)) == (1, len(feeds))
    store.reads.clear()
    store.store_verdict(verdict("feed_003", FreshnessStatus.LATE))
    assert [found.feed for found in reader.overview() if found.status is FreshnessStatus.LATE] == ["feed_003"]
    assert (store.listings, store.reads) == (2, ["_freshness/feed_003.json"])


def test_a_damaged_object_hides_nothing_else() -> None:
    whole = fresh()
    store = MemoryStore(whole)
    store.texts["other/CURRENT"] = StoredText("{}", 1)
    for name in ("AUDITS", "ledger/00000119-a1b2c3.json", "arrivals/2119-1795000000000119.json"):
        store.texts[f"product_attributes/{name}"] = StoredText("{}", 2)
    reader = FeedReader(lambda: store)
    assert reader.overview() == [whole.verdict]
    records = reader.read("product_attributes")
    assert records is not None
    assert records.verdict == whole.verdict
    assert (records.audits, len(records.attempts)) == (None, 99)
    assert len(records.deliveries) == 99
    store.texts["_freshness/product_attributes.json"] = StoredText("{}", 3)
    assert reader.read("product_attributes") is None, "the next check replaces the verdict"
    assert reader.overview() == []
    assert reader.read("_status") is None
    assert reader.read("nobody") is None, "a folder without verdict is no feed"


def test_how_far_the_dedup_job_is_is_read_while_a_run_holds_the_lease_and_as_far_as_it_is_known() -> None:
    store = at_work(NOW)
    reader = FeedReader(lambda: store)

    def running() -> Any:
        records = reader.read("product_attributes")
        assert records is not None
        return page_view(records, NOW)["running"]

    found = running()
    assert (found["run_id"], found["progress"]["done"], found["progress"]["of"]) == ("publish__1", 12, 730)
    progress, current = "product_attributes/attempts/00000121-a/progress.json", "product_attributes/CURRENT"
    for text in ("{", '{"phase": "scan"}'):
        store.texts[progress] = StoredText(text, store.texts[progress].object_generation + 1)
        assert running()["progress"] is None
    del store.texts[progress]
    assert running()["progress"] is None
    store.texts[current] = StoredText(to_json(Current("product_attributes", 120, "digest", 121, None)), 2)
    assert running() is None


def test_a_date_of_a_table_by_month_expires_with_the_first_of_its_month() -> None:
    records = fresh()
    assert records.live
    table = replace(records.live.table, partition_by=PartitionBy.MONTH)
    dates = page_view(replace(records, live=replace(records.live, table=table)), NOW)["dates"]
    assert (dates[-1][0], dates[-1][3]) == ("2026-11-21", 710)


def test_a_snapshot_that_a_check_stopped_asks_for_nobody_while_another_run_has_the_lease() -> None:
    intent = Intent(Kind.PUBLISH, "store_visits_publish", "manual__1", "00000123-a", 120, 123, NOW, ())
    shown = [page_view(replace(late(), intent=found), NOW)["stopped"] is not None for found in (None, intent)]
    assert shown == [True, False]


def test_generations_show_whether_and_from_what_they_can_be_restored() -> None:
    records = fresh()
    by = generations(records)
    assert by[120][0] == "time travel"  # the live one, if somebody changed target
    assert by[119][0] == "time travel"
    assert by[71][0] is None  # older than a week, and its files are pruned
    made_anew = with_feed_file(records, staging_created_at=NOW - timedelta(minutes=1))
    assert [(number, found) for number, (found, _) in generations(made_anew).items() if found] == [
        (119, "files"), (120, "files"),
    ]  # fmt: skip


def test_no_generation_from_before_a_rebuild_can_be_restored() -> None:
    records = fresh()
    live = [replace(one, kind=Kind.REBUILD) if one.generation == 120 else one for one in records.attempts]
    found = generations(replace(records, attempts=tuple(live)))
    assert [number for number, (restorable, _) in found.items() if restorable] == [120]


def generations(records: FeedRecords) -> dict[int, tuple[str | None, str | None]]:
    """From what each generation can be restored, and until when."""
    return {g["generation"]: (g["restorable"], g["until"]) for g in page_view(records, NOW)["publishes"]}


def freshness(found: FreshnessVerdict, now: datetime) -> Any:
    return page_view(FeedRecords(found), now)["freshness"]


MISSED = Incident(IncidentKind.LATE, Severity.ALERT, NOW, "snapshot 8 is not live", "open the run.", "", "snapshot 7")


def test_the_verdict_is_shown_with_its_age_its_incidents_and_the_next_arrival() -> None:
    expected = tuple(ExpectedTime(NOW + timedelta(hours=h), ExpectedTimeState.PENDING) for h in (-1, 2))
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,), waiting=1, expected=expected)
    view = freshness(stored, NOW + timedelta(seconds=40))
    assert (view["status"], view["headline"]) == (
        "late",
        "Readers see snapshot 2120 (generation 120); 1 delivery waits.",
    )
    assert view["next_step"] == "open the run."
    assert (view["check_age_s"], view["next_expected_at"]) == (80.0, expected[1].at.isoformat())
    (incident,) = view["incidents"]
    assert (incident["kind"], incident["name"], incident["severity"]) == ("late", "late", "alert")
    assert (incident["what"], incident["next_step"]) == ("snapshot 8 is not live", "open the run.")
    assert freshness(stored, NOW + timedelta(hours=3))["next_expected_at"] is None, "it has passed"
    early = replace(expected[1], state=ExpectedTimeState.MET)
    assert freshness(replace(stored, expected=(early,)), NOW)["next_expected_at"] is None, "it came before its time"
    # What waited at the check is counted until three checks were missed.
    counted = [freshness(stored, stored.checked_at + timedelta(minutes=age))["waiting"] for age in (15, 16)]
    assert counted == [1, None]
