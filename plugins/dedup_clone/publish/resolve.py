"""First step: heal, decide what is folded in, take the lease, write the dedup request."""

from __future__ import annotations

import dedup_clone
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import FORMAT_VERSION
from dedup_clone.contract.request import DedupRequest, Plan, RequestedDelivery
from dedup_clone.publish.date_ranges import say_dates
from dedup_clone.publish.decision import Decision, decide, engine_of
from dedup_clone.publish.healing import heal
from dedup_clone.publish.lease import take_lease
from dedup_clone.publish.orders import PublishOrder, Trigger
from dedup_clone.publish.parent import name_parent
from dedup_clone.publish.replayed_dates import retained
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent, IntentKind


def resolve(services: Services, trigger: Trigger) -> PublishOrder | str:
    """Returns the order for the following steps, or the reason why there is nothing to do.

    Raises LeaseHeld (another run works on the feed), and what `decide` raises.
    """
    if trigger.replay:
        decide(services, trigger)  # a form that is refused makes nobody give way
    heal(services, dag_id=trigger.dag_id, run_id=trigger.run_id)
    decision = decide(services, trigger)
    if decision.nothing:
        return decision.nothing
    if services.warehouse.table(services.feed.staging) is None:
        services.warehouse.create_staging(services.names, services.feed.table.to_contract())
    intent = take_lease(services, IntentKind.PUBLISH, trigger, parent=decision.parent_generation)
    uri = services.manifests.write_request(_request(services, trigger, intent, decision))
    backlog, snapshot_id = decision.backlog, _snapshot_shown(trigger, decision)
    services.fact(
        f"takes the lease for attempt [{intent.attempt}] on parent [{intent.parent}], folds in "
        f"{[d.name for d in backlog.apply]}{_only(trigger)}, superseded {[d.name for d in backlog.superseded]}",
        snapshot_id=snapshot_id,
        generation=intent.generation,
    )
    return PublishOrder(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=engine_of(services, trigger),
        snapshot_id=snapshot_id,
        request_uri=uri,
        restores=None,
        restored_at=None,
        accepted_checks=trigger.accepted_checks,
        reason=_reason(trigger),
        dates=trigger.dates,
    )


def _snapshot_shown(trigger: Trigger, decision: Decision) -> int:
    """What readers are told they see: some dates of a snapshot are not that snapshot."""
    if trigger.dates is not None and decision.parent is not None:
        return decision.parent.snapshot_id
    return decision.backlog.apply[-1].snapshot_id


def _reason(trigger: Trigger) -> str:
    """As the ledger keeps it."""
    return f"of [{trigger.delivery.name}]{_only(trigger)}: {trigger.reason}" if trigger.dates else trigger.reason


def _only(trigger: Trigger) -> str:
    return "" if trigger.dates is None else f" only {say_dates(trigger.dates)}"


def _request(services: Services, trigger: Trigger, intent: Intent, decision: Decision) -> DedupRequest:
    feed, layout = services.feed, services.layout
    parent, applied = decision.parent, decision.backlog.apply
    oldest, latest = retained(services)  # fixed here, once: midnight cannot split a run
    engine = engine_of(services, trigger)
    return DedupRequest(
        format_version=FORMAT_VERSION,
        feed=feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        run_id=intent.run_id,
        code_version=dedup_clone.__version__,
        table=feed.table.to_contract(),
        update_id_mode=feed.update_id_mode,
        engine=engine,
        source_format=feed.landing.format,
        date_folders=feed.landing.date_folders,
        plan=Plan(trigger.plan) if trigger.plan else feed.dedup.plan,
        retention_day=oldest,
        latest_day=latest,
        deliveries=tuple(RequestedDelivery(d, services.arrivals.uri(d)) for d in applied),
        folded=_latest_of_each_id(parent.deliveries if parent else ()),
        # A replay by hand releases what a rollback excluded, if it is of the whole delivery.
        excluded=tuple(d for d in (parent.excluded if parent else ()) if trigger.dates or d not in applied),
        parent=name_parent(services, intent.attempt, parent, engine, oldest=oldest),
        data_uri=services.store.uri(layout.data_folder(intent.attempt)),
        attempt_uri=services.store.uri(layout.attempt_folder(intent.attempt)),
        exact=feed.dedup.exact,
        compare_values=feed.dedup.compare_values,
        file_bytes=feed.dedup.file_megabytes << 20,
        dates=trigger.dates,
    )


def _latest_of_each_id(deliveries: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
    return tuple({d.snapshot_id: d for d in sorted(deliveries)}.values())
