"""First task of a publish: decides what the publish includes, acquires the lease, writes the dedup job's request."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import DedupRequest, Plan, RequestedDelivery
from dedup_clone.publish.check import check_before_dedup
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.early_refusals import without_refused_deliveries
from dedup_clone.publish.planning.decision import Decision, decide, engine_of
from dedup_clone.publish.planning.dedup_request import build_dedup_request
from dedup_clone.publish.planning.parent_generation import parent_reference, require_readable_parent
from dedup_clone.publish.planning.reused_candidate import find_reusable_candidate
from dedup_clone.publish.planning.staging_table import add_columns_for_queries, prepare_staging
from dedup_clone.publish.records.erasure_records import erasure_uris
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.records.stopped_publish import note_checks_before_dedup
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishRequest, PublishSpec
from dedup_clone.state.current import Intent


def resolve(services: Services, publish_request: PublishRequest) -> PublishSpec | str:
    """Return the spec for the following tasks, or the reason why there is nothing to publish.

    Raises LeaseHeld while another run works on the feed, LostRace, DeliveryRefused if every delivery is refused by the
    names, sizes or footers of its files, and what `CurrentFile.read_for`, `recover`, `decide`, `check_before_dedup`,
    `require_readable_parent` and `parent_reference` raise.
    """
    dag_id, run_id = publish_request.dag_id, publish_request.run_id
    services.current.read_for(services.environment)
    if publish_request.replay:
        decide(services, publish_request)  # a replay that is refused must end no attempt
    recover(services, dag_id=dag_id, run_id=run_id, is_replay=publish_request.replay)
    decision = decide(services, publish_request)
    if decision.skip_reason:
        return decision.skip_reason
    accepted, reason = publish_request.accepted_checks, publish_request.reason

    def note(results: CheckResults) -> None:
        if note_checks_before_dedup(services, publish_request, decision.backlog.apply, results):
            try_refresh_index(services)

    check_before_dedup(services, decision.parent_generation, accepted=accepted, reason=reason, note=note)
    require_readable_parent(services, decision.parent, engine_of(services, publish_request))
    intent = services.current.acquire_lease(
        services.environment, decision.parent_generation, Kind.PUBLISH, dag_id=dag_id, run_id=run_id, now=services.now()
    )
    request, parent = _dedup_request(services, publish_request, intent, decision), decision.parent
    if request.engine.runs_spark:
        request = without_refused_deliveries(services, request)
    prepare_staging(services)
    if not request.engine.runs_spark:
        add_columns_for_queries(services)
    reusable = find_reusable_candidate(services, request, parent) if publish_request.replay else None
    if reusable is not None:
        request_uri = services.manifests.write_request(reusable.request)
        services.manifests.write_candidate(intent.attempt, reusable.candidate)
    else:
        reference = parent_reference(services, intent.attempt, parent, request.engine, oldest=request.retention_day)
        request_uri = services.manifests.write_request(replace(request, parent=reference))
    snapshot_id = _snapshot_shown(request, parent)
    services.log(
        f"acquired the lease for attempt [{intent.attempt}] on parent [{intent.parent}], includes "
        f"{[item.delivery.name for item in request.deliveries]}{_dates_text(publish_request)}, superseded "
        f"{[d.name for d in decision.backlog.superseded]}",
        snapshot_id=snapshot_id,
        generation=intent.generation,
    )
    return PublishSpec(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=request.engine,
        snapshot_id=snapshot_id,
        request_uri=request_uri,
        accepted_checks=publish_request.accepted_checks,
        reason=_ledger_reason(publish_request),
        dates=publish_request.dates,
    )


def _snapshot_shown(request: DedupRequest, parent: Manifest | None) -> int:
    """Return the snapshot that status view and page will name: the parent's if only some dates are replayed."""
    if request.dates is not None and parent is not None:
        return parent.snapshot_id
    return request.deliveries[-1].delivery.snapshot_id


def _ledger_reason(publish_request: PublishRequest) -> str:
    if not publish_request.dates:
        return publish_request.reason
    return f"of [{publish_request.delivery.name}]{_dates_text(publish_request)}: {publish_request.reason}"


def _dates_text(publish_request: PublishRequest) -> str:
    return "" if publish_request.dates is None else f" only {format_dates(publish_request.dates)}"


def _dedup_request(
    services: Services, publish_request: PublishRequest, intent: Intent, decision: Decision
) -> DedupRequest:
    """The request without the reference to the parent: `resolve` adds that later, because it may need an export."""
    parent, applied = decision.parent, decision.backlog.apply
    oldest, latest = services.retention_window()  # fixed for the whole run, which may last past midnight
    return build_dedup_request(
        services,
        intent,
        engine=engine_of(services, publish_request),
        plan=Plan(publish_request.plan) if publish_request.plan else services.feed.dedup.plan,
        date_folders=services.feed.landing.date_folders,
        oldest=oldest,
        latest=latest,
        deliveries=tuple(RequestedDelivery(d, services.arrivals.uri(d)) for d in applied),
        folded=_latest_of_each_id(parent.deliveries if parent else ()),
        # A replay of a whole delivery ends its exclusion by a rollback.
        excluded=tuple(d for d in (parent.excluded if parent else ()) if publish_request.dates or d not in applied),
        dates=publish_request.dates,
        erasures=erasure_uris(services, decision.parent_generation),
    )


def _latest_of_each_id(deliveries: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
    return tuple({d.snapshot_id: d for d in sorted(deliveries)}.values())
