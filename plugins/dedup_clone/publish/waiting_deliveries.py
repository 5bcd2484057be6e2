"""Finds what waits beside a replayed delivery, and what a rollback excludes."""

from __future__ import annotations

from dedup_clone.contract.delivery import Backlog, Delivery, split_backlog
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services


def waiting_names(services: Services, parent: Manifest | None) -> str:
    """The names of the deliveries that the next publish on top of `parent` applies, as text."""
    return ", ".join(delivery.name for delivery in services.arrivals.backlog(parent).apply) or "none"


def find_backlog_with_replay(services: Services, parent: Manifest | None, replayed: Delivery) -> Backlog:
    """The backlog and the `replayed` delivery, even if it was included, held, refused or excluded before."""
    left_out = {*services.arrivals.refused(), *services.arrivals.held()} - {replayed}
    registered = [d for d in services.arrivals.deliveries() if d not in left_out]
    included, excluded = _included_and_excluded(parent)
    return split_backlog(registered, included - {replayed}, excluded - {replayed})


def excluded_after(services: Services, live: Manifest, restored: Manifest) -> tuple[Delivery, ...]:
    """The deliveries that a rollback from `live` to `restored` excludes: later publishes include them only by a replay.

    These are the deliveries that `live` includes or excludes and `restored` lacks, and those that `restored` excludes.
    Deliveries that were superseded by one of these are excluded too: a publish would otherwise apply them instead.
    Deliveries that wait now, are held or land later are not excluded.
    """
    backlog = services.arrivals.backlog(live)
    processed = set(services.arrivals.deliveries()) - {*services.arrivals.refused(), *backlog.apply, *backlog.held}
    removed = split_backlog(processed, restored.deliveries, restored.excluded)
    restored_markers = {d.snapshot_id: d.marker_generation for d in restored.deliveries}
    later = [d for d in removed.superseded if d.marker_generation > restored_markers.get(d.snapshot_id, 0)]
    return tuple(sorted({*restored.excluded, *removed.apply, *later}))


def _included_and_excluded(manifest: Manifest | None) -> tuple[set[Delivery], set[Delivery]]:
    return (set(manifest.deliveries), set(manifest.excluded)) if manifest else (set(), set())
