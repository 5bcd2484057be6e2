"""Finds the backlog: the registered deliveries that a given generation does not include yet."""

from __future__ import annotations

from dedup_clone.contract.delivery import Backlog, Delivery, split_backlog
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services


def find_backlog(services: Services, parent: Manifest | None) -> Backlog:
    """The deliveries that `parent` neither includes nor excludes, without refused ones.

    `parent`: None before the first publish. Superseded deliveries are listed apart: see `Backlog` in
    contract/delivery.py.
    """
    refused = set(services.arrivals.refused())
    registered = [d for d in services.arrivals.deliveries() if d not in refused]
    return split_backlog(registered, *_included_and_excluded(parent))


def find_backlog_with_replay(services: Services, parent: Manifest | None, replayed: Delivery) -> Backlog:
    """The backlog and the `replayed` delivery, even if it was included, refused or excluded before."""
    refused = set(services.arrivals.refused()) - {replayed}
    registered = [d for d in services.arrivals.deliveries() if d not in refused]
    included, excluded = _included_and_excluded(parent)
    return split_backlog(registered, included - {replayed}, excluded - {replayed})


def excluded_after(services: Services, live: Manifest, restored: Manifest) -> tuple[Delivery, ...]:
    """The deliveries that a rollback from `live` to `restored` excludes: later publishes include them only by a replay.

    These are the deliveries that `live` includes or excludes and `restored` lacks, and those that `restored` excludes.
    Deliveries that were superseded by one of these are excluded too: a publish would otherwise apply them instead.
    Deliveries that wait now or land later are not excluded.
    """
    backlog = find_backlog(services, live)
    processed = set(services.arrivals.deliveries()) - set(services.arrivals.refused()) - set(backlog.apply)
    removed = split_backlog(processed, restored.deliveries, restored.excluded)
    restored_markers = {d.snapshot_id: d.marker_generation for d in restored.deliveries}
    later = [d for d in removed.superseded if d.marker_generation > restored_markers.get(d.snapshot_id, 0)]
    return tuple(sorted({*restored.excluded, *removed.apply, *later}))


def _included_and_excluded(manifest: Manifest | None) -> tuple[set[Delivery], set[Delivery]]:
    return (set(manifest.deliveries), set(manifest.excluded)) if manifest else (set(), set())
