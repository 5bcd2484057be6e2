"""Copies snapshots of an archive to landing, where they become ordinary deliveries."""

from __future__ import annotations

from datetime import timedelta

from dedup_clone.publish.backfill.archived_snapshots import (
    ArchivedSnapshots,
    BackfillRequest,
    find_archived,
    refuse_unexpected_objects,
)
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.state.landing import Landing, Marker
from dedup_clone.state.store import in_parallel


def land_next_snapshots(services: Services, archive: Landing, request: BackfillRequest) -> bool:
    """Land the next snapshots of the archive, unless the backfill has to wait.

    Returns True once all snapshots have landed and no delivery waits to be published, otherwise False.

    Raises ContractViolation if a snapshot's folder in landing has objects that the archive lacks. Raises
    ConfigurationError as `find_archived` does.
    """
    found = find_archived(services, archive, request)
    waits_for = _waits_for(services, found, request)
    if waits_for:
        services.log(f"backfill: [{len(found.to_land)}] snapshots to land, waits for {waits_for}")
        return False
    if not found.to_land:
        services.log(f"backfill: all [{found.landed_count}] snapshots of [{request.archive}] have landed")
        return True
    for marker in found.to_land[: request.at_once]:
        _land(services, archive, marker)
        services.log("backfill: landed a snapshot of the archive", snapshot_id=marker.delivery.snapshot_id)
    return False


def _waits_for(services: Services, found: ArchivedSnapshots, request: BackfillRequest) -> str:
    """What the backfill waits for; empty if the next snapshots can land now."""
    if services.is_foreign(services.current.read()):
        return "the environment that publishes the feed"
    unregistered = services.arrivals.unregistered(services.landing.markers())
    waiting = [marker.delivery for marker in unregistered] or list(find_backlog(services, found.live).apply)
    if waiting:
        return f"delivery [{waiting[0].name}], which is not published"
    if found.to_land and found.landed:
        newest = max(found.landed, key=lambda delivery: delivery.marker_generation)
        next_at = services.arrivals.read(newest).arrived_at + timedelta(minutes=request.pause_minutes)
        if services.now() < next_at:
            return f"[{next_at:%H:%M}] UTC"
    return ""


def _land(services: Services, archive: Landing, marker: Marker) -> None:
    """Copy the snapshot's objects, the marker last. A retry after an interruption copies them all again."""
    landing, archived = services.landing, list(archive.store.objects(marker.folder))
    refuse_unexpected_objects(services, marker, archived)
    folder = landing.folder(marker.delivery.snapshot_id)
    sources = {f"{folder}{o.name.removeprefix(marker.folder)}": o for o in archived}
    marker_name = f"{folder}{marker.name.removeprefix(marker.folder)}"
    data = [(source, name) for name, source in sources.items() if name != marker_name]
    in_parallel(lambda pair: landing.store.copy_from(archive.store, pair[0], pair[1]), data)
    landing.store.copy_from(archive.store, sources[marker_name], marker_name)
