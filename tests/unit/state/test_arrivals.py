"""Markers in landing: which are deliveries, and which are invalid and reported once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dedup_clone.contract.delivery import INT64_MAX
from dedup_clone.orchestration.watch.delivery_sensor import DeliveryTrigger
from dedup_clone.state import arrivals
from dedup_clone.state.arrivals import LandingWatch
from tests.unit.state.conftest import FEED, Buckets

WRONG_FOLDERS = [
    "snapshot_id=abc",
    "snapshot_id=-5",
    f"snapshot_id={INT64_MAX + 1}",
    "snapshot_id=007",
    "snapshot_id=",
    "snapshot_id=1.0",
    "snapshot_id=１",
    "snapshot=7",
    "7",
    "Snapshot_id=7",
]


def test_markers_are_deliveries_in_the_order_of_their_ids(buckets: Buckets) -> None:
    for id_ in ("10", "9", "0", str(INT64_MAX)):
        buckets.put(f"snapshot_id={id_}/_SUCCESS")
    buckets.put("snapshot_id=8/a.parquet")
    listing = buckets.landing.list_markers()
    assert [m.delivery.snapshot_id for m in listing.markers] == [0, 9, 10, INT64_MAX]
    assert listing.invalid == []


@pytest.mark.parametrize("folder", WRONG_FOLDERS)
def test_marker_in_a_folder_that_is_no_snapshot_id_is_reported_once_and_starts_nothing(
    buckets: Buckets, folder: str
) -> None:
    buckets.put(f"{folder}/a.parquet", f"{folder}/_SUCCESS", "snapshot_id=1/_SUCCESS")
    listing = buckets.landing.list_markers()
    assert [m.delivery.snapshot_id for m in listing.markers] == [1]
    (reported,) = buckets.invalid_markers.record_new(listing.invalid)
    assert f"{FEED}/{folder}/_SUCCESS] starts no publish: folder [{folder}/] names no snapshot id" in reported.text
    assert "Next: land the snapshot below [snapshot_id=N/]" in reported.text
    assert buckets.invalid_markers.record_new(buckets.landing.list_markers().invalid) == []
    assert buckets.arrivals.refused() == []


def test_marker_that_is_a_folder_is_reported_until_the_object_is_there(buckets: Buckets) -> None:
    buckets.put("snapshot_id=3/a.parquet", "snapshot_id=3/_SUCCESS/part-0")
    listing = buckets.landing.list_markers()
    assert listing.markers == []
    (reported,) = buckets.invalid_markers.record_new(listing.invalid)
    assert "snapshot_id=3/_SUCCESS/part-0] starts no publish: it is a folder, expected an object" in reported.text


def test_marker_beside_the_snapshots_is_reported(buckets: Buckets) -> None:
    buckets.put("_SUCCESS")
    (reported,) = buckets.invalid_markers.record_new(buckets.landing.list_markers().invalid)
    assert "it lies in no snapshot's folder" in reported.text


def test_marker_written_again_is_reported_again_and_a_hidden_folder_never(buckets: Buckets) -> None:
    buckets.put("snapshot_id=x/_SUCCESS", "_temporary/_SUCCESS", ".old/_SUCCESS", "snapshot_id=y/a.parquet")
    assert len(buckets.invalid_markers.record_new(buckets.landing.list_markers().invalid)) == 1
    buckets.put("snapshot_id=x/_SUCCESS")
    assert len(buckets.invalid_markers.record_new(buckets.landing.list_markers().invalid)) == 1


def test_trigger_warns_of_an_invalid_marker_and_goes_on_to_the_next_delivery(
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
    watch = LandingWatch(buckets.landing, buckets.arrivals, buckets.invalid_markers, polls_per_full_listing=1)
    monkeypatch.setattr(trigger, "_open", lambda: watch)
    buckets.put("snapshot_id=abc/_SUCCESS")
    warned: list[str] = []
    monkeypatch.setattr(arrivals.log, "warning", lambda text, *values: _note(warned, buckets, text % values))
    event = asyncio.run(_first_event(trigger))
    assert event["message"].startswith("found markers of deliveries [4-")
    assert [text for text in warned if "folder [snapshot_id=abc/] names no snapshot id" in text] == warned
    assert len(warned) == 1


def _note(warned: list[str], buckets: Buckets, text: str) -> None:
    """The next delivery comes when the warning was given."""
    warned.append(text)
    buckets.put("snapshot_id=4/_SUCCESS")


async def _first_event(trigger: DeliveryTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        payload: dict[str, Any] = event.payload
        return payload
    raise AssertionError("the trigger ended without an event")
