"""First task of a publish: decides what the publish includes, acquires the lease, writes the attempt's record."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.delivery import Delivery, newly_live
from dedup_clone.contract.kind import Kind
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.early_checks import check_before_dedup
from dedup_clone.publish.early_refusals import without_refused_deliveries
from dedup_clone.publish.planning.begin_attempt import begin_attempt
from dedup_clone.publish.planning.decision import Decision, PublishRequest, decide, engine_of
from dedup_clone.publish.planning.parent_generation import parent_files, require_readable_parent
from dedup_clone.publish.planning.staging_table import add_columns_for_queries, prepare_staging
from dedup_clone.publish.records.erasure_records import erasure_uris
from dedup_clone.publish.records.held_deliveries import find_reusable_candidate
from dedup_clone.publish.records.stopped_publish import note_checks_before_dedup
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services


def resolve(services: Services, publish_request: PublishRequest) -> Attempt | str:
    """Return the attempt for the following tasks, or the reason why there is nothing to publish.

    Raises LeaseHeld while another run works on the feed, LostRace, CheckFailed, ConfigurationError, and DeliveryRefused
    if every delivery is refused by the names, sizes or footers of its files.
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
        if publish_request.dates is None:  # a replay of some dates includes no waiting delivery
            note_checks_before_dedup(services, decision.backlog.apply, results, dag_id=dag_id, run_id=run_id)

    check_before_dedup(services, decision.parent_generation, accepted=accepted, reason=reason, note=note)
    require_readable_parent(services, decision.parent, engine_of(services, publish_request))
    attempt, parent = _begin(services, publish_request, decision), decision.parent
    if attempt.engine.runs_spark:
        attempt = without_refused_deliveries(services, attempt)
    prepare_staging(services)
    if not attempt.engine.runs_spark:
        add_columns_for_queries(services)
    reusable = find_reusable_candidate(services, attempt, parent) if publish_request.replay else None
    if reusable is not None:
        attempt, candidate = reusable
        services.manifests.write_attempt(attempt)
        services.manifests.write_candidate(attempt.id, candidate)
    else:
        attempt = replace(attempt, parent_files=parent_files(services, attempt, parent))
        services.manifests.write_attempt(attempt)
    services.log(
        f"acquired the lease for attempt [{attempt.id}] on parent [{attempt.parent}], includes "
        f"{[delivery.name for delivery in attempt.deliveries]}{_dates_text(publish_request)}, superseded "
        f"{[d.name for d in decision.backlog.superseded]}",
        snapshot_id=attempt.snapshot_id,
        generation=attempt.generation,
    )
    return attempt


def _begin(services: Services, publish_request: PublishRequest, decision: Decision) -> Attempt:
    """Acquire the lease. The attempt still lacks the parent's files, which may need an export."""
    parent, applied, dates = decision.parent, decision.backlog.apply, publish_request.dates
    attempt = begin_attempt(
        services,
        publish_request,
        Kind.PUBLISH,
        decision.parent_generation,
        reason=_ledger_reason(publish_request),
        engine=engine_of(services, publish_request),
        snapshot_id=applied[-1].snapshot_id if dates is None or parent is None else parent.snapshot_id,
    )
    before = (*parent.deliveries, *parent.excluded) if parent else ()
    return replace(
        attempt,
        plan=Plan(publish_request.plan) if publish_request.plan else attempt.plan,
        is_replay=dates is not None or not newly_live(applied, before),
        accepted_checks=publish_request.accepted_checks,
        deliveries=applied,
        folded=_latest_of_each_id(parent.deliveries if parent else ()),
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


def _latest_of_each_id(deliveries: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
    return tuple({d.snapshot_id: d for d in sorted(deliveries)}.values())
