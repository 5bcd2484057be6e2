"""What a publish run that starts now would fold in, on top of which generation. Writes nothing, takes no lease."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, DeliveryRefused, LostRace
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.precedence import Backlog
from dedup_clone.publish.backlog import waiting, with_replay
from dedup_clone.publish.orders import Trigger
from dedup_clone.publish.replayed_dates import require_replayable
from dedup_clone.publish.services import Services
from dedup_clone.settings.engine_fit import engine_problem


@dataclass(frozen=True)
class Decision:
    """`parent` is the live generation, None before the first. `nothing` says why there is nothing to do, else None."""

    parent: Manifest | None
    backlog: Backlog
    nothing: str | None

    @property
    def parent_generation(self) -> int | None:
        return None if self.parent is None else self.parent.generation


def decide(services: Services, trigger: Trigger) -> Decision:
    """Raises ConfigurationError (engine or dates do not fit), DeliveryRefused (set aside), ContractViolation (not
    registered), LostRace (registered just now)."""
    _require_fitting_engine(services, trigger)
    generation = services.current.read().generation
    parent = None if generation is None else services.manifests.read(generation)
    backlog = _backlog(services, trigger, parent)
    nothing = _nothing_to_do(services, trigger.delivery, backlog, parent)
    if trigger.dates is not None and nothing is None:
        require_replayable(services, trigger.delivery, trigger.dates, parent)
        backlog = Backlog(apply=(trigger.delivery,), superseded=())  # what else waits has a run of its own
    return Decision(parent, backlog, nothing)


def engine_of(services: Services, trigger: Trigger) -> Engine:
    return trigger.engine or services.feed.engine


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


def _nothing_to_do(services: Services, delivery: Delivery, backlog: Backlog, parent: Manifest | None) -> str | None:
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
