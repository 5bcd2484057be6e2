"""The triggers of many feeds in one triggerer: they share their clients, and do not wait for each other's listings."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from dedup_clone.orchestration.watch import delivery_sensor
from dedup_clone.orchestration.watch.delivery_sensor import LISTINGS_AT_ONCE, DeliveryTrigger


class SlowLanding:
    """A landing whose listing ends only while as many others run as shall run side by side."""

    def __init__(self) -> None:
        self._others = threading.Barrier(LISTINGS_AT_ONCE, timeout=10)

    def new_markers(self) -> list[SimpleNamespace]:
        self._others.wait()
        return [SimpleNamespace(delivery=SimpleNamespace(name="7-1"))]


def trigger_of(feed: str, connection: str = "google_cloud_default") -> DeliveryTrigger:
    return DeliveryTrigger(
        connection=connection,
        landing_bucket="landing",
        state_bucket="state",
        feed=feed,
        prefix=feed,
        marker="_SUCCESS",
        interval_s=15.0,
        limit_s=15.0,
    )


def test_the_triggers_of_all_feeds_share_their_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_bucket(connection: str, gcs_bucket: str) -> None:
        opened.append(gcs_bucket)

    monkeypatch.setattr(delivery_sensor, "open_gcs_bucket", open_bucket)
    for number in range(5):
        trigger_of(f"feed_{number}", connection="of this test")._open()
    assert sorted(opened) == ["landing", "state"]


def test_triggers_list_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    landing = SlowLanding()
    monkeypatch.setattr(delivery_sensor, "MAX_FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(DeliveryTrigger, "_open", lambda trigger: landing)

    async def first_event(number: int) -> str:
        return str((await anext(trigger_of(f"feed_{number}").run())).payload["message"])

    async def first_events() -> list[str]:
        return await asyncio.gather(*map(first_event, range(LISTINGS_AT_ONCE)))

    assert asyncio.run(first_events()) == ["found markers of deliveries [7-1]"] * LISTINGS_AT_ONCE
