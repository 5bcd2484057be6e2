"""Looking at landing every few seconds: what is new is seen, and old markers cost next to nothing."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.state.landing_watch import NEWEST_SNAPSHOTS, LandingWatch
from dedup_clone.state.misnamed import MisnamedMarkers
from dedup_clone.state.store import ObjectStore
from tests.contract.publish.feed_world import FeedWorld

OLD = range(1, NEWEST_SNAPSHOTS + 11)


class Landed:
    """A landing with many registered snapshots, watched; `asked` are the names of the last look."""

    def __init__(self, world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.asked: list[str] = []
        self.mark(*OLD)
        services = world.services
        for marker in services.landing.markers():
            services.arrivals.register(services.landing, marker)
        stat = ObjectStore.stat

        def counted(store: ObjectStore, names: list[str]) -> Any:
            self.asked = names
            return stat(store, names)

        monkeypatch.setattr(ObjectStore, "stat", counted)
        misnamed = MisnamedMarkers(services.store, world.feed.feed)
        self.watch = LandingWatch(services.landing, services.arrivals, misnamed, looks_until_whole=3)

    def mark(self, *snapshot_ids: int) -> None:
        for snapshot_id in snapshot_ids:
            name = f"{self.world.feed.landing.prefix}/snapshot_id={snapshot_id}/_SUCCESS"
            self.world.storage.bucket("landing").blob(name).upload_from_string("")

    def look(self) -> list[int]:
        return [marker.delivery.snapshot_id for marker in self.watch.look()]


@pytest.fixture
def landed(world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> Landed:
    return Landed(world, monkeypatch)


def test_old_markers_are_asked_for_now_and_then_only(landed: Landed) -> None:
    counts = []
    for _ in range(4):
        landed.look()
        counts.append(len(landed.asked))
    whole, quick = len(OLD) + 1, NEWEST_SNAPSHOTS + 1  # one for the prefix itself
    assert counts == [whole, quick, quick, whole]


def test_new_folders_and_the_newest_snapshots_are_seen_at_once(landed: Landed) -> None:
    landed.look()
    landed.mark(max(OLD) + 1)
    assert landed.look() == [max(OLD) + 1]
    landed.mark(max(OLD))
    assert set(landed.look()) == {max(OLD), max(OLD) + 1}


def test_a_late_snapshot_is_seen_at_once(landed: Landed) -> None:
    landed.look()
    landed.mark(0)
    assert landed.look() == [0]


def test_an_old_marker_that_is_written_again_is_seen_by_the_next_whole_look(landed: Landed) -> None:
    landed.look()
    landed.mark(1)
    assert [landed.look() for _ in range(3)] == [[], [], [1]]
