"""Looks at a feed's deliveries and decides about them in this process, as the watch DAG and people do."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.held_deliveries import discard_held
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.state.arrivals import LandingWatch
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn


def dry_run_of(world: FeedOnStandIn, name: str, **changes: Any) -> str:
    """What the publish DAG shows for a dry run of the delivery."""
    return preview_publish(world.services, world.publish_request(name, **changes))[1]


def discard_delivery(world: FeedOnStandIn, name: str, *, reason: str = "garbage") -> None:
    """Take a held delivery out of what may be published, as a person does in the form."""
    (delivery,) = [found for found in world.services.arrivals.deliveries() if found.name == name]
    discard_held(world.services, delivery, reason)


def held_deliveries(world: FeedOnStandIn) -> list[str]:
    """The names of the deliveries that wait for a person's decision, oldest snapshot first."""
    return [delivery.name for delivery in world.services.arrivals.backlog(live_manifest(world)).held]


def waiting_deliveries(world: FeedOnStandIn) -> list[str]:
    """The names of the deliveries that the next publish applies, oldest snapshot first."""
    return [delivery.name for delivery in world.services.arrivals.backlog(live_manifest(world)).apply]


def live_manifest(world: FeedOnStandIn) -> Manifest | None:
    """The manifest of the live generation; None without one."""
    generation = world.services.current.read().generation
    return None if generation is None else world.services.manifests.read(generation)


def register_all(world: FeedOnStandIn) -> list[str]:
    """Register what has landed, as the watch DAG does. Returns the names of the new deliveries."""
    services = world.services
    markers = services.arrivals.unregistered(services.landing.markers())
    for marker in markers:
        services.arrivals.register(services.landing, marker)
    return [marker.delivery.name for marker in markers]


class Polling:
    """The watch DAG's trigger, which polls landing.

    `requested`: how many markers the last poll requested. `listings`: how often the arrival records were listed.
    """

    def __init__(self, world: FeedOnStandIn, *, polls_per_full_listing: int) -> None:
        services, self.world = world.services, world
        self.requested = self.listings = 0
        self._watch = LandingWatch(services.landing, services.arrivals, polls_per_full_listing=polls_per_full_listing)

    def poll(self) -> list[int]:
        """The ids of the snapshots whose markers are new."""
        stat, objects = ObjectStore.stat, ObjectStore.objects

        def counted(store: ObjectStore, names: list[str]) -> Any:
            self.requested = len(names)
            return stat(store, names)

        def listed(store: ObjectStore, prefix: str, **options: Any) -> Any:
            self.listings += prefix.endswith("/arrivals/")
            return objects(store, prefix, **options)

        with patch.object(ObjectStore, "stat", counted), patch.object(ObjectStore, "objects", listed):
            return [marker.delivery.snapshot_id for marker in self._watch.new_markers()]
