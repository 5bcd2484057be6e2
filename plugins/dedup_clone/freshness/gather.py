"""Reads the facts of one feed: a few small objects, three listings, and metadata of target. Nothing is billed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.facts import (
    DagActivity,
    Facts,
    MisnamedMarker,
    RefusedDelivery,
    TargetState,
    WaitingDelivery,
)
from dedup_clone.publish.backlog import waiting
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap_files import find_swap
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.audits import AuditsFile
from dedup_clone.state.current import Current
from dedup_clone.state.index import published_records
from dedup_clone.state.ledger import LedgerRecord

REASONS_READ = 20


def gather(
    services: Services, *, watch: DagActivity | None, publish: DagActivity | None, look_again: timedelta
) -> Facts:
    """The facts now. CURRENT is read right before target, so that a swap in between is known as its intent's."""
    look = services.landing.look()
    noticed = _noticed(services)
    landed = {marker.delivery: marker.created_at for marker in look.markers}
    records = tuple(published_records(services.store, services.feed.feed))
    current = services.current.read()
    live = next((r for r in reversed(records) if r.generation == current.generation), None)
    target = _target(services, live)
    intent = current.intent
    return Facts(
        feed=services.feed.feed,
        settings=services.feed.freshness,
        current=current,
        holder_runs=intent is not None and services.is_running(intent.dag_id, intent.run_id),
        live=live,
        history=tuple(r for r in records if r.restores is None),
        arrivals=tuple(sorted({*(noticed | landed).values(), *(r.arrived_at for r in records if not r.is_bootstrap)})),
        waiting=tuple(_waiting(services, current, landed, noticed)),
        refused=tuple(_refused(services, live)),
        misnamed=tuple(MisnamedMarker(m.generation, m.text, m.created_at) for m in look.misnamed),
        target=target,
        watch=watch,
        publish=publish,
        look_again=look_again,
        audits=AuditsFile(services.store, services.feed.feed).read(),
    )


def _noticed(services: Services) -> dict[Delivery, datetime]:
    """When each delivery was registered, which is seconds after it arrived; the records themselves can be large."""
    prefix = services.layout.arrivals
    return {
        Delivery.parse(info.name.removeprefix(prefix).removesuffix(".json")): info.created_at
        for info in services.store.objects(prefix)
    }


def _waiting(
    services: Services, current: Current, landed: dict[Delivery, datetime], noticed: dict[Delivery, datetime]
) -> Iterable[WaitingDelivery]:
    """By the marker's own time where it still lies in landing."""
    manifest = None if current.generation is None else services.manifests.read(current.generation)
    for delivery in waiting(services, manifest).apply:
        yield WaitingDelivery(delivery, (noticed | landed)[delivery], registered=True)
    for delivery in landed.keys() - noticed.keys():
        yield WaitingDelivery(delivery, landed[delivery], registered=False)


def _refused(services: Services, live: LedgerRecord | None) -> Iterable[RefusedDelivery]:
    """Refused by the last publish or after it; the one that goes live next ends them."""
    since = None if live is None else live.swapped_at
    infos = [i for i in services.store.objects(services.layout.refused) if since is None or i.created_at >= since]
    newest = [info.name for info in sorted(infos, key=lambda i: i.created_at)[-REASONS_READ:]]
    for refusal in services.store.read_records(Refusal, newest):
        yield RefusedDelivery(refusal.delivery, refusal.reason, refusal.refused_at)


def _target(services: Services, live: LedgerRecord | None) -> TargetState:
    feed = services.feed
    return TargetState(
        table=services.warehouse.table(feed.target),
        staging=feed.staging,
        cloned_at=None if live is None else _cloned_at(services, live),
        retention_days=feed.table.retention_days,
        materialized_views=tuple(services.warehouse.materialized_views_of(feed.target)),
    )


def _cloned_at(services: Services, live: LedgerRecord) -> datetime | None:
    swap = find_swap(services, live.attempt)
    return None if swap is None else swap.checked_at
