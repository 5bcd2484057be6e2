"""First task of a publish: decides what it includes, acquires the lease, and writes the attempt's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from dedup_clone.checks.check_result import require_no_failure
from dedup_clone.contract.attempt import Attempt, Kind, Plan
from dedup_clone.contract.delivery import Backlog, Delivery, newly_live, split_backlog
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, DeliveryRefused, LostRace
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.attempts import Form, acquire_lease, new_attempt, write_attempt
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.declared_form import add_columns_for_queries, prepare_staging, refuse_impossible_changes
from dedup_clone.publish.early_checks import NOT_DEDUPLICATED, check_before_dedup
from dedup_clone.publish.early_refusals import without_refused_deliveries
from dedup_clone.publish.erasure_records import erasure_uris, last_erasure_generation
from dedup_clone.publish.held_deliveries import find_reusable_candidate, note_checks_before_dedup
from dedup_clone.publish.parent_generation import parent_files, require_live_as_shown, require_readable_parent
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import DeliveryLists
from dedup_clone.state.current import Intent


@dataclass(frozen=True, kw_only=True)
class PublishRequest(Form):
    """What a publish run was started for: a new delivery, or a replay that an operator requested.

    `engine` and `plan`: None for the feed's own. `accepted_checks`: the checks whose failure the operator accepts;
    `reason`: why the operator asked for the replay, or empty. `dates`: the only dates of the delivery to replay; None
    for all.
    """

    delivery: Delivery
    replay: bool
    engine: Engine | None
    plan: str | None
    accepted_checks: tuple[str, ...]
    dates: tuple[date, ...] | None = None


@dataclass(frozen=True)
class Decision:
    """What a publish includes.

    `parent`: the live generation, if any. `skip_reason`: why there is nothing to publish; None if there is something.
    """

    parent: Manifest | None
    backlog: Backlog
    skip_reason: str | None

    @property
    def parent_generation(self) -> int | None:
        return None if self.parent is None else self.parent.generation


def decide(services: Services, publish_request: PublishRequest) -> Decision:
    """Decide what the requested publish includes.

    Raises ConfigurationError when engine, columns or dates do not fit; DeliveryRefused when the delivery was refused
    earlier; ContractViolation when it is not registered; LostRace when it was registered after the backlog was listed,
    so that a retry finds it.
    """
    parent = services.find_live()
    _require_fitting_engine(services, publish_request, parent)
    lists = services.arrivals.lists()
    backlog = _backlog(lists, publish_request, parent)
    refuse_impossible_changes(services, engine_of(services, publish_request), parent)
    skip_reason = _skip_reason(services, publish_request.delivery, lists, backlog, parent)
    if publish_request.dates is not None and skip_reason is None:
        require_replayable(services, publish_request.delivery, publish_request.dates, parent)
    if skip_reason is None and _is_published_alone(lists, publish_request):
        # The watch DAG has started a run that publishes other waiting deliveries.
        backlog = Backlog(apply=(publish_request.delivery,), superseded=())
    return Decision(parent, backlog, skip_reason)


def engine_of(services: Services, publish_request: PublishRequest) -> Engine:
    """The engine that the replay names, else the feed's own."""
    return publish_request.engine or services.feed.engine


def _require_fitting_engine(services: Services, publish_request: PublishRequest, live: Manifest | None) -> None:
    """Raise ConfigurationError if the feed does not support the engine that the replay names.

    Raise it also if keys were erased and the publish's engine is not `spark`.
    """
    feed, named_engine = services.feed, publish_request.engine
    problem = named_engine and feed.unsupported_reason(named_engine)
    if problem:
        raise ConfigurationError(f"Feed [{feed.feed}] cannot be replayed with engine [{named_engine}]: {problem}.")
    engine = engine_of(services, publish_request)
    if engine is not Engine.SPARK and last_erasure_generation(services, live.generation if live else None):
        raise ConfigurationError(
            f"Keys of feed [{feed.feed}] were erased, and engine [{engine}] is not supported after an erasure: publish "
            f"with engine [{Engine.SPARK}], in the feed file or in the form."
        )


def _backlog(lists: DeliveryLists, publish_request: PublishRequest, parent: Manifest | None) -> Backlog:
    """The deliveries that wait; in a replay also the replayed one, if published, held, refused or excluded, too."""
    replayed = publish_request.delivery
    if not publish_request.replay:
        return lists.backlog(parent)
    of_same_id = {delivery for delivery in lists.held if delivery.snapshot_id == replayed.snapshot_id}
    registered = lists.registered.keys() - ({*lists.refused, *of_same_id} - {replayed})
    included, excluded = (parent.deliveries, parent.excluded) if parent else ((), ())
    return split_backlog(registered, set(included) - {replayed}, set(excluded) - {replayed}, {*lists.held} - of_same_id)


def _is_published_alone(lists: DeliveryLists, publish_request: PublishRequest) -> bool:
    """Whether a person decided on this one delivery: on some dates, on failed checks, or because it is held."""
    decides = publish_request.dates is not None or bool(publish_request.accepted_checks)
    return decides or (publish_request.replay and publish_request.delivery in lists.held)


def _skip_reason(
    services: Services, delivery: Delivery, lists: DeliveryLists, backlog: Backlog, parent: Manifest | None
) -> str | None:
    """Why this run has nothing to publish; None if its delivery is in the backlog. Raises as `decide` does."""
    if delivery in backlog.apply:
        return None
    if delivery in backlog.superseded:
        return f"Delivery [{delivery.name}] is superseded by a later delivery of snapshot {delivery.snapshot_id}."
    if delivery in backlog.held:
        return (
            f"Delivery [{delivery.name}] is held, because a check on its data stopped it: look at it with its "
            f"producer, then replay exactly this delivery, or discard it (page Snapshots)."
        )
    if parent and delivery in parent.deliveries:
        return f"Delivery [{delivery.name}] is part of generation {parent.generation} already."
    if parent and delivery in parent.excluded:
        return f"Delivery [{delivery.name}] was excluded by a rollback: replay it by hand to publish it after all."
    if delivery in lists.refused:
        raise DeliveryRefused(
            f"Delivery [{delivery.name}] was refused and set aside: see "
            f"[{services.store.uri(services.layout.refusal(delivery))}]; ask the producer for a new delivery."
        )
    if parent and any(d.snapshot_id == delivery.snapshot_id and d > delivery for d in parent.deliveries):
        return f"A later delivery of snapshot {delivery.snapshot_id} is part of generation {parent.generation}."
    services.arrivals.read(delivery)  # raises if it is not registered; the error names those that are
    # It is registered, but was not when the backlog was listed.
    raise LostRace(f"Delivery [{delivery.name}] was registered just now: this task tries again by itself.")


def require_replayable(services: Services, delivery: Delivery, dates: tuple[date, ...], live: Manifest | None) -> None:
    """Raise ConfigurationError if one of `dates` cannot be replayed; the error says what can be done instead."""
    feed = services.feed
    where = f"Dates of delivery [{delivery.name}] of [{feed.feed}]"
    if live is None:
        raise ConfigurationError(f"{where} cannot be replayed before the first publish: replay the whole snapshot.")
    if not feed.landing.date_folders:
        raise ConfigurationError(
            f"{where} cannot be told apart: the feed lands no date folders. Replay the whole snapshot."
        )
    if feed.update_id_mode is UpdateIdMode.LAST_CHANGED and delivery not in live.deliveries[-1:]:
        published = f"delivery [{live.deliveries[-1].name}]" if live.deliveries else "delivery (none yet)"
        raise ConfigurationError(
            f"{where} cannot be replayed: mode [last_changed] needs snapshots in order, so only dates of the newest "
            f"published {published} can. Name that one, or publish the whole snapshot."
        )
    delivered = set(objects_by_date(services.arrivals.read(delivery), feed.table.to_contract().date_folder))
    oldest, newest = services.retention_window()
    possible = [day for day in delivered if oldest <= day <= newest]
    too_old = [day for day in dates if day < oldest]
    absent = [day for day in dates if day >= oldest and day not in possible]
    if too_old or absent or not dates:
        raise ConfigurationError(
            f"{where} cannot be replayed: older than the retention of {feed.table.retention_days} days (the oldest "
            f"is {oldest}): {format_dates(too_old)}; not in the delivery: {format_dates(absent)}. "
            f"Choose among: {format_dates(possible)}."
        )


def waiting_names(services: Services, parent: Manifest | None) -> str:
    """The names of the deliveries that the next publish on top of `parent` applies, as text."""
    return ", ".join(delivery.name for delivery in services.arrivals.backlog(parent).apply) or "none"


def resolve(
    services: Services, publish_request: PublishRequest, shown: Mapping[str, Any] | None = None
) -> Attempt | str:
    """Return the attempt for the following tasks, or the reason why there is nothing to publish.

    `shown`: what `preview_publish` returned, if a person has approved it. The attempt then includes no other delivery.

    Raises LeaseHeld while another run works on the feed, LostRace, CheckFailed, ConfigurationError, and DeliveryRefused
    if every delivery is refused by the names, sizes or footers of its files.
    """
    # 1. Commit or discard what a dead run left.
    recover(services, publish_request)
    # 2. Decide which deliveries are included.
    if shown is not None:
        delivery = Delivery(shown["snapshot_id"], shown["marker_generation"])
        publish_request = replace(publish_request, delivery=delivery)
    decision = decide(services, publish_request)
    if decision.skip_reason:
        return decision.skip_reason
    if shown is not None:
        require_live_as_shown(services, decision.parent_generation, shown["live_generation"])
    # 3. Check what needs no new row, and whether the parent's rows can be read.
    accepted, reason = publish_request.accepted_checks, publish_request.reason
    results = check_before_dedup(services, decision.parent_generation, Kind.PUBLISH, accepted=accepted, reason=reason)
    if publish_request.dates is None:  # a replay of some dates includes no waiting delivery
        note_checks_before_dedup(services, decision.backlog.apply, decision.parent, results, publish_request)
    require_no_failure(results, NOT_DEDUPLICATED)
    require_readable_parent(services, decision.parent, engine_of(services, publish_request))
    # 4. Acquire the lease. What follows is undone by the task `reconcile_failure`, or by the next run.
    intent = acquire_lease(services, publish_request, Kind.PUBLISH, decision.parent_generation)
    attempt, parent = plan_attempt(services, publish_request, decision, intent), decision.parent
    # 5. Refuse deliveries by the names, sizes and footers of their files.
    if attempt.engine.runs_spark:
        attempt = without_refused_deliveries(services, attempt)
    # 6. Give staging the declared columns and options.
    prepare_staging(services)
    if not attempt.engine.runs_spark:
        add_columns_for_queries(services)
    # 7. Find the files to build on: those of a stopped attempt, or the parent's, which may need an export.
    reusable = find_reusable_candidate(services, attempt, parent) if publish_request.replay else None
    if reusable is not None:
        attempt = reusable[0]
    else:
        attempt = replace(attempt, parent_files=parent_files(services, attempt, parent))
    # 8. Write the record that all later tasks read.
    names = [delivery.name for delivery in attempt.deliveries]
    superseded = [delivery.name for delivery in decision.backlog.superseded]
    write_attempt(services, attempt, f"includes {names}{_dates_text(publish_request)}, superseded {superseded}")
    if reusable is not None:
        services.manifests.write_candidate(attempt.id, reusable[1])
    return attempt


def plan_attempt(services: Services, publish_request: PublishRequest, decision: Decision, intent: Intent) -> Attempt:
    """What the publish does under the lease of `intent`, without the parent's files, which may need an export."""
    parent, applied, dates = decision.parent, decision.backlog.apply, publish_request.dates
    snapshot_id = applied[-1].snapshot_id if dates is None or parent is None else parent.snapshot_id
    engine = engine_of(services, publish_request)
    attempt = new_attempt(services, intent, _ledger_reason(publish_request), engine, snapshot_id)
    before = (*parent.deliveries, *parent.excluded) if parent else ()
    return replace(
        attempt,
        plan=Plan(publish_request.plan) if publish_request.plan else attempt.plan,
        is_replay=dates is not None or not newly_live(applied, before),
        accepted_checks=publish_request.accepted_checks,
        deliveries=applied,
        folded=parent.deliveries if parent else (),
        # A replay of a whole delivery ends its exclusion by a rollback.
        excluded=tuple(d for d in (parent.excluded if parent else ()) if dates or d not in applied),
        dates=dates,
        erasures=erasure_uris(services, decision.parent_generation),
    )


def _ledger_reason(publish_request: PublishRequest) -> str:
    if not publish_request.dates:
        return publish_request.reason
    return f"of [{publish_request.delivery.name}]{_dates_text(publish_request)}: {publish_request.reason}"


def _dates_text(publish_request: PublishRequest) -> str:
    return "" if publish_request.dates is None else f" only {format_dates(publish_request.dates)}"
