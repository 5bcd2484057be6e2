"""Which registered deliveries wait, given what a generation has folded in: one answer for all who ask."""

from __future__ import annotations

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.precedence import Backlog, fold_backlog
from dedup_clone.publish.services import Services


def waiting(services: Services, generation: Manifest | None) -> Backlog:
    """The backlog on top of `generation` (None: nothing is published); refused deliveries are in neither list."""
    refused = set(services.arrivals.refused())
    registered = [d for d in services.arrivals.deliveries() if d not in refused]
    return fold_backlog(registered, *_accounted(generation))


def with_replay(services: Services, generation: Manifest | None, delivery: Delivery) -> Backlog:
    """The backlog and `delivery`, be it folded in, refused or excluded already: the replay applies it again."""
    refused = set(services.arrivals.refused()) - {delivery}
    registered = [d for d in services.arrivals.deliveries() if d not in refused]
    folded, excluded = _accounted(generation)
    return fold_backlog(registered, folded - {delivery}, excluded - {delivery})


def excluded_after(services: Services, live: Manifest, restored: Manifest) -> tuple[Delivery, ...]:
    """What a rollback from `live` to `restored` takes out: no later publish may bring it back by itself.

    Deliveries that `live` accounts for and `restored` does not, superseded ones among them: without their successor
    they would be applied. Those that wait, and those that land later, are not excluded.
    """
    backlog = waiting(services, live)
    accounted = set(services.arrivals.deliveries()) - set(services.arrivals.refused()) - set(backlog.apply)
    removed = fold_backlog(accounted, restored.deliveries, restored.excluded)
    held = {d.snapshot_id: d.marker_generation for d in restored.deliveries}
    later = [d for d in removed.superseded if d.marker_generation > held.get(d.snapshot_id, 0)]
    return tuple(sorted({*restored.excluded, *removed.apply, *later}))


def _accounted(generation: Manifest | None) -> tuple[set[Delivery], set[Delivery]]:
    return (set(generation.deliveries), set(generation.excluded)) if generation else (set(), set())
