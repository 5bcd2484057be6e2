"""Check steps: gather the evidence, judge it, keep the verdicts, and stop before the swap if one fails."""

from __future__ import annotations

from dedup_clone.checks import contents, partitions, tables
from dedup_clone.checks.policies import policies_present
from dedup_clone.checks.shares import PUBLISHES_COMPARED, shares_within_bounds
from dedup_clone.checks.verdicts import Verdict, Verdicts, accept, require, verdict
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.bootstrap_check import judge_existing
from dedup_clone.publish.existing_table import TakenOver, read_taken_over
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.orders import PublishOrder, SwapOrder
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap_files import keep_swap
from dedup_clone.publish.verdict_files import keep
from dedup_clone.state.current import IntentKind
from dedup_clone.state.index import published_records
from dedup_clone.state.staging import StagingState
from dedup_clone.warehouse.facts import Observation


def check_before_swap(services: Services, order: PublishOrder) -> SwapOrder:
    """Judge staging and the manifest. Raises CheckFailed: target then keeps its old content.

    A rollback judges no contents: they were judged when they were published first. One by time travel judges no rows
    before the swap either, for staging holds another generation now; those of target are judged after it.
    """
    intent = services.current.require_intent(order.attempt)
    taken = read_taken_over(services, order.attempt) if intent.kind is IntentKind.BOOTSTRAP else None
    candidate, manifest = read_candidate(services, order)
    staging = services.warehouse.observe(services.names, services.feed.staging)
    found = _judge_tables(services, order, staging, taken)
    if order.restored_at is None:
        found += [_loaded(services, manifest), *_judge_staging(manifest, staging)]
    if order.restores is None:
        found += _judge_contents(services, order, candidate, manifest)
    if taken is not None:
        found += judge_existing(services, order.attempt, taken, manifest)
    verdicts = Verdicts("before", accept(found, order.accepted_checks, order.reason))
    snapshot_id = order.snapshot_id if taken is None else manifest.snapshot_id
    keep(services, order.attempt, verdicts, snapshot_id=snapshot_id, generation=order.generation)
    require(verdicts, "Target keeps its old content.")
    swap = SwapOrder(
        attempt=order.attempt,
        generation=str(order.generation),
        parent="" if order.parent is None else str(order.parent),
        snapshot=str(snapshot_id),
        manifest=manifest.digest,
        description=f"{services.feed.description} Unique by {', '.join(manifest.table.keys)}.",
        checked_at=order.restored_at or staging.observed_at,
        expiration_days=manifest.table.retention_days,
        reason=order.reason,
        bytes_billed=staging.bytes_billed,
        staging_bytes=staging.table.size,
    )
    keep_swap(services, swap)
    return swap


def _loaded(services: Services, manifest: Manifest) -> Verdict:
    staging = services.staging.read()
    found = "nothing" if staging is None else f"{staging.state} {staging.manifest_digest}"
    return verdict(
        "staging_loaded",
        found == f"{StagingState.LOADED} {manifest.digest}",
        found=found,
        expected=f"{StagingState.LOADED} {manifest.digest}",
        next_step="clear the run from load_staging.",
    )


def _judge_tables(
    services: Services, order: PublishOrder, staging: Observation, taken: TakenOver | None
) -> list[Verdict]:
    contract = services.feed.table.to_contract()
    target = services.warehouse.table(services.feed.target)
    replaced = taken.existing.version if taken and taken.existing.is_target else None
    return [
        tables.schema_matches(staging.table, contract),
        tables.layout_matches(staging.table, target, contract),
        tables.no_streaming_buffer(staging.table),
        tables.target_is_ours(target, order.parent, order.generation, replaced),
        tables.no_materialized_views(services.warehouse.materialized_views_of(services.feed.target)),
        *judge_policies(services, "staging_policies", services.feed.staging),
    ]


def judge_policies(services: Services, check: str, table: str) -> list[Verdict]:
    """Nothing to judge, and nothing asked of BigQuery, where the feed declares no policy."""
    declared = services.feed.table.policies
    if not declared.row_access and not declared.column_tags:
        return []
    return [policies_present(check, services.warehouse.policies(table), declared)]


def _judge_staging(manifest: Manifest, staging: Observation) -> list[Verdict]:
    return [
        partitions.rows_match("staging_rows", manifest, staging),
        partitions.unchanged_since_load(staging),
        partitions.expiration_set("staging_expiration", staging, manifest.table.retention_days),
    ]


def _judge_contents(services: Services, order: PublishOrder, candidate: Candidate, manifest: Manifest) -> list[Verdict]:
    settings = services.feed.checks
    parent = None if order.parent is None else services.manifests.read(order.parent)
    records = published_records(services.store, services.feed.feed)
    midnight = services.now().replace(hour=0, minute=0, second=0, microsecond=0)
    today = [r for r in records if r.swapped_at and r.swapped_at >= midnight]
    history = [r.shares for r in records if r.restores is None][-PUBLISHES_COMPARED:]
    return [
        contents.keys_unique(manifest, services.manifests.candidate_files(candidate)),
        *shares_within_bounds(manifest, settings, parent, history, candidate.examples),
        contents.dates_present(manifest, settings, order.dates),
        contents.duplicates_tolerated(candidate, settings),
        contents.quota_left(manifest, [len(manifest.dates)] * len(today)),
    ]
