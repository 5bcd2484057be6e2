"""What became of a delivery's objects since its inventory was frozen, by a listing of landing as it is now."""

from __future__ import annotations

from collections.abc import Callable

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import ObjectVersion, changed_objects
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Marker


def changes_since(services: Services, arrival: Arrival) -> list[str]:
    """Objects that are gone, were replaced or appeared; empty when landing is as it was."""
    marker = Marker(arrival.delivery, arrival.folder, arrival.marker, arrival.arrived_at)
    objects = services.landing.inventory(arrival.feed, marker).objects
    now = {o.name.removeprefix(arrival.folder): ObjectVersion(o.generation, o.size) for o in objects}
    return changed_objects(arrival, now, uri_of(arrival))


def uri_of(arrival: Arrival) -> Callable[[str], str]:
    """Names of objects, relative to the delivery's folder, as URIs."""
    return lambda name: f"gs://{arrival.bucket}/{arrival.folder}{name}"
