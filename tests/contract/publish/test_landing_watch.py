"""Polling landing every few seconds: new deliveries are found, and old markers cost next to nothing."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.state.arrivals import NEWEST_SNAPSHOTS, InvalidMarkers, LandingWatch
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn

OLD = range(1, NEWEST_SNAPSHOTS + 11)


class Landed:
    """A landing with many registered snapshots.

    `requested`: names of the markers that the last poll requested. `listed`: prefixes that all polls listed.
    """

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.requested: list[str] = []
        self.listed: list[str] = []
        self.mark(*OLD)
        services = world.services
        for marker in services.landing.markers():
            services.arrivals.register(services.landing, marker)
        stat = ObjectStore.stat

        def counted(store: ObjectStore, names: list[str]) -> Any:
            self.requested = names
            return stat(store, names)

        objects = ObjectStore.objects

        def listed(store: ObjectStore, prefix: str, *, first: str = "") -> Any:
            self.listed.append(prefix)
            return objects(store, prefix, first=first)

        monkeypatch.setattr(ObjectStore, "stat", counted)
        monkeypatch.setattr(ObjectStore, "objects", listed)
        invalid_markers = InvalidMarkers(services.store, world.feed.feed)
        self.watch = LandingWatch(services.landing, services.arrivals, invalid_markers, polls_per_full_listing=3)

    def mark(self, *snapshot_ids: int) -> None:
        for snapshot_id in snapshot_ids:
            name = f"{self.world.feed.landing.prefix}/snapshot_id={snapshot_id}/_SUCCESS"
            self.world.storage.bucket("landing").blob(name).upload_from_string("")

    def poll(self) -> list[int]:
        return [marker.delivery.snapshot_id for marker in self.watch.new_markers()]


@pytest.fixture
def landed(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Landed:
    return Landed(world, monkeypatch)


def test_old_markers_are_requested_now_and_then_only(landed: Landed) -> None:
    counts = []
    for _ in range(4):
        landed.poll()
        counts.append(len(landed.requested))
    full, quick = len(OLD) + 1, NEWEST_SNAPSHOTS + 1  # one for the prefix itself
    assert counts == [full, quick, quick, full]


def test_arrival_records_are_listed_only_when_a_marker_may_be_new(landed: Landed) -> None:
    assert [landed.poll() for _ in range(4)] == [[]] * 4
    assert landed.listed == [landed.world.services.layout.arrivals]
    landed.mark(max(OLD) + 1)
    landed.poll()
    assert landed.listed.count(landed.world.services.layout.arrivals) == 2


def test_new_folders_and_the_newest_snapshots_are_seen_at_once(landed: Landed) -> None:
    landed.poll()
    landed.mark(max(OLD) + 1)
    assert landed.poll() == [max(OLD) + 1]
    landed.mark(max(OLD))
    assert set(landed.poll()) == {max(OLD), max(OLD) + 1}


def test_a_late_snapshot_is_seen_at_once(landed: Landed) -> None:
    landed.poll()
    landed.mark(0)
    assert landed.poll() == [0]


def test_an_old_marker_that_is_written_again_is_seen_by_the_next_full_listing(landed: Landed) -> None:
    landed.poll()
    landed.mark(1)
    assert [landed.poll() for _ in range(3)] == [[], [], [1]]
