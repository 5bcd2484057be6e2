"""Markers in landing: which are deliveries, and which are invalid and reported once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dedup_clone.orchestration.watch.notice_delivery import DeliveryTrigger
from dedup_clone.state import arrivals
from dedup_clone.state.arrivals import LandingWatch
from tests.unit.state.conftest import FEED, Buckets

GREATEST_ID = 2**63 - 1
NO_ID = "names no snapshot id"


def test_markers_are_deliveries_in_the_order_of_their_ids(buckets: Buckets) -> None:
    for id_ in ("10", "9", "0", str(GREATEST_ID)):
        buckets.put(f"snapshot_id={id_}/_SUCCESS")
    buckets.put("snapshot_id=8/a.parquet")
    listing = buckets.landing.list_markers()
    assert [m.delivery.snapshot_id for m in listing.markers] == [0, 9, 10, GREATEST_ID]
    assert listing.invalid == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("snapshot_id=abc/_SUCCESS", NO_ID),
        ("snapshot_id=-5/_SUCCESS", NO_ID),
        (f"snapshot_id={GREATEST_ID + 1}/_SUCCESS", NO_ID),
        ("snapshot_id=007/_SUCCESS", NO_ID),
        ("snapshot_id=/_SUCCESS", NO_ID),
        ("snapshot_id=1.0/_SUCCESS", NO_ID),
        ("snapshot_id=１/_SUCCESS", NO_ID),
        ("snapshot=7/_SUCCESS", NO_ID),
        ("7/_SUCCESS", NO_ID),
        ("Snapshot_id=7/_SUCCESS", NO_ID),
        ("snapshot_id=3/_SUCCESS/part-0", "it is a folder, expected an object"),
        ("_SUCCESS", "it lies in no snapshot's folder"),
    ],
)
def test_a_wrong_marker_starts_nothing_and_is_reported_once_until_it_is_written_again(
    buckets: Buckets, name: str, problem: str
) -> None:
    buckets.put(f"{name}.parquet", name, "snapshot_id=1/_SUCCESS", "_temporary/_SUCCESS", ".old/_SUCCESS")
    for _ in range(2):
        listing = buckets.landing.list_markers()
        assert [m.delivery.snapshot_id for m in listing.markers] == [1]
        (reported,) = buckets.arrivals.record_invalid(listing.invalid)
        assert f"{FEED}/{name}] starts no publish: " in reported.text
        assert problem in reported.text
        assert buckets.arrivals.record_invalid(buckets.landing.list_markers().invalid) == []
        buckets.put(name)
    assert buckets.arrivals.refused() == []


def test_the_trigger_warns_of_an_invalid_marker_and_goes_on_to_the_next_delivery(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = DeliveryTrigger(
        connection="none",
        landing_bucket=buckets.landing_bucket,
        state_bucket=buckets.state_bucket,
        feed=FEED,
        prefix=FEED,
        marker="_SUCCESS",
        interval_s=0.01,
        limit_s=60,
    )
    watch = LandingWatch(buckets.landing, buckets.arrivals, polls_per_full_listing=1)
    monkeypatch.setattr(trigger, "_open", lambda: watch)
    buckets.put("snapshot_id=abc/_SUCCESS")
    warned: list[str] = []

    def warn(text: str, *values: Any) -> None:
        """The next delivery comes when the warning was given."""
        warned.append(text % values)
        buckets.put("snapshot_id=4/_SUCCESS")

    async def first_event() -> str:
        async for event in trigger.run():
            return str(event.payload)
        raise AssertionError("the trigger ended without an event")

    monkeypatch.setattr(arrivals.log, "warning", warn)
    assert asyncio.run(first_event()).startswith("found markers of deliveries [4-")
    assert [NO_ID in text for text in warned] == [True]
