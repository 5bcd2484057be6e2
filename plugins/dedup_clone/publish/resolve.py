"""First step: heal, decide what is folded in, take the lease, write the dedup request."""

from __future__ import annotations

from datetime import UTC, timedelta

import dedup_clone
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError, DeliveryRefused, LostRace
from dedup_clone.contract.manifest import FORMAT_VERSION, Manifest
from dedup_clone.contract.precedence import Backlog
from dedup_clone.contract.request import DedupRequest, Plan, RequestedDelivery
from dedup_clone.publish.backlog import waiting, with_replay
from dedup_clone.publish.healing import heal
from dedup_clone.publish.orders import PublishOrder, Trigger
from dedup_clone.publish.parent import name_parent
from dedup_clone.publish.services import Services
from dedup_clone.settings.engine_fit import engine_problem
from dedup_clone.state.current import Intent, IntentKind


def resolve(services: Services, trigger: Trigger) -> PublishOrder | str:
    """Returns the order for the following steps, or the reason why there is nothing to do.

    Raises LeaseHeld (another run works on the feed), DeliveryRefused (the delivery was set aside), ConfigurationError.
    """
    _require_fitting_engine(services, trigger)
    heal(services, dag_id=trigger.dag_id, run_id=trigger.run_id)
    current = services.current.read()
    parent = None if current.generation is None else services.manifests.read(current.generation)
    backlog = _backlog(services, trigger, parent)
    nothing = _nothing_to_do(services, trigger, backlog, parent)
    if nothing:
        return nothing
    if services.warehouse.table(services.feed.staging) is None:
        services.warehouse.create_staging(services.names, services.feed.table.to_contract())
    intent = services.current.take_lease(lambda base, generation: _intent(services, trigger, base, generation))
    if intent.parent != current.generation:
        services.current.release(intent.attempt)
        raise LostRace(f"Generation [{intent.parent}] was committed meanwhile: this task tries again by itself.")
    request = _request(services, trigger, intent, backlog, parent)
    uri = services.manifests.write_request(request)
    snapshot_id = backlog.apply[-1].snapshot_id
    services.fact(
        f"takes the lease for attempt [{intent.attempt}] on parent [{intent.parent}], folds in "
        f"{[d.name for d in backlog.apply]}, superseded {[d.name for d in backlog.superseded]}",
        snapshot_id=snapshot_id,
        generation=intent.generation,
    )
    return PublishOrder(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=trigger.engine or services.feed.engine,
        snapshot_id=snapshot_id,
        request_uri=uri,
        restores=None,
        restored_at=None,
        accepted_checks=trigger.accepted_checks,
        reason=trigger.reason,
    )


def _require_fitting_engine(services: Services, trigger: Trigger) -> None:
    """The feed's own engine was judged when the feed was read; a replay may ask for another."""
    feed = services.feed
    problem = trigger.engine and engine_problem(trigger.engine, feed.table.to_contract(), feed.update_id_mode)
    if problem:
        raise ConfigurationError(f"Feed [{feed.feed}]: {problem}.")


def _backlog(services: Services, trigger: Trigger, parent: Manifest | None) -> Backlog:
    if not trigger.replay:
        return waiting(services, parent)
    services.arrivals.read(trigger.delivery)  # raises, naming the deliveries that there are
    return with_replay(services, parent, trigger.delivery)


def _nothing_to_do(services: Services, trigger: Trigger, backlog: Backlog, parent: Manifest | None) -> str | None:
    delivery = trigger.delivery
    if delivery in backlog.apply:
        return None
    if delivery in backlog.superseded:
        return f"Delivery [{delivery.name}] is superseded by a later delivery of snapshot {delivery.snapshot_id}."
    if parent and delivery in parent.deliveries:
        return f"Delivery [{delivery.name}] is part of generation {parent.generation} already."
    if parent and delivery in parent.excluded:
        return f"Delivery [{delivery.name}] was excluded by a rollback: replay it by hand to publish it after all."
    if delivery in services.arrivals.refused():
        raise DeliveryRefused(
            f"Delivery [{delivery.name}] was refused and set aside: see "
            f"[{services.store.uri(services.layout.refusal(delivery))}]; ask the producer for a new delivery."
        )
    if parent and any(d.snapshot_id == delivery.snapshot_id and d > delivery for d in parent.deliveries):
        return f"A later delivery of snapshot {delivery.snapshot_id} is part of generation {parent.generation}."
    services.arrivals.read(delivery)  # raises, naming the deliveries that there are
    raise LostRace(f"Delivery [{delivery.name}] was registered just now: this task tries again by itself.")


def _intent(services: Services, trigger: Trigger, parent: int | None, generation: int) -> Intent:
    return Intent.begin(
        IntentKind.PUBLISH,
        dag_id=trigger.dag_id,
        run_id=trigger.run_id,
        parent=parent,
        generation=generation,
        now=services.now(),
    )


def _request(
    services: Services, trigger: Trigger, intent: Intent, backlog: Backlog, parent: Manifest | None
) -> DedupRequest:
    feed, layout = services.feed, services.layout
    today = services.now().astimezone(UTC).date()  # fixed here, once: midnight cannot split a run
    oldest = today - timedelta(days=feed.table.retention_days - 1)
    engine = trigger.engine or feed.engine
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
        latest_day=today + timedelta(days=1),
        deliveries=tuple(RequestedDelivery(d, services.arrivals.uri(d)) for d in backlog.apply),
        folded=_latest_of_each_id(parent.deliveries if parent else ()),
        # A replay by hand releases what a rollback excluded.
        excluded=tuple(d for d in (parent.excluded if parent else ()) if d not in backlog.apply),
        parent=name_parent(services, intent.attempt, parent, engine, oldest=oldest),
        data_uri=services.store.uri(layout.data_folder(intent.attempt)),
        attempt_uri=services.store.uri(layout.attempt_folder(intent.attempt)),
        exact=feed.dedup.exact,
        compare_values=feed.dedup.compare_values,
    )


def _latest_of_each_id(deliveries: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
    return tuple({d.snapshot_id: d for d in sorted(deliveries)}.values())
