"""Compares a delivery's frozen inventory with the objects that are in landing now."""

from __future__ import annotations

from collections.abc import Callable

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import ObjectVersion, changed_objects
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import Marker


def changes_since_arrival(services: Services, arrival: Arrival) -> list[str]:
    """One problem for each object that is gone, was replaced or appeared since the delivery was registered."""
    marker = Marker(arrival.delivery, arrival.folder, arrival.marker, arrival.arrived_at)
    objects = services.landing.inventory(arrival.feed, marker).objects
    versions = {o.name.removeprefix(arrival.folder): ObjectVersion(o.generation, o.size) for o in objects}
    return changed_objects(arrival, versions, object_uri(arrival))


def object_uri(arrival: Arrival) -> Callable[[str], str]:
    """A function from an object's name within the delivery's folder to its URI."""
    return lambda name: f"gs://{arrival.bucket}/{arrival.folder}{name}"
