"""Reads the state of a feed for the freshness checks.

It reads a few small objects and listings, and metadata of target, of materialized views and of the running step's job.
What Airflow knows is passed in. No query reads table data; one reads metadata of partitions, if target has another
number of rows than was published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.checks.partition_checks import check_rows
from dedup_clone.checks.table_checks import labelled_generation
from dedup_clone.contract.attempt import Swap
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import Manifest
from dedup_clone.freshness.feed_state import (
    DagActivity,
    FailedRun,
    FeedState,
    PendingJob,
    TargetState,
    WaitingDelivery,
    newest_live,
)
from dedup_clone.publish.attempts import failed_checks, find_swap
from dedup_clone.publish.held_deliveries import (
    StoppedPublish,
    find_stopped,
    find_stopped_before_dedup,
    read_held,
)
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap import is_loading_target
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.audits import read_audits
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.ledger import LAST_ATTEMPTS, LedgerRecord, Outcome
from dedup_clone.warehouse.metadata import TableMetadata


def read_feed_state(
    services: Services,
    *,
    watch_dag: DagActivity | None,
    publish_is_paused: bool,
    find_failed_run: Callable[[tuple[Delivery, ...]], FailedRun | None],
    reads_bigquery: bool = True,
) -> FeedState:
    """Read the feed's state. `find_failed_run` asks Airflow about the runs of the registered deliveries that wait.

    If `reads_bigquery` is False, `target` and `pending_job` of the state are None.

    CURRENT is read right before target. If a swap happens between the two reads, the intent read from CURRENT shows
    that a run was at work, so that the new content of target is not taken for drift. The ledger is read after CURRENT.
    A commit writes the ledger record before CURRENT, so the live generation's record is found.
    """
    listing = services.landing.list_markers()
    lists = services.arrivals.lists()
    # If a marker was deleted, its delivery's registration, seconds after it unless the watch DAG did not run, counts.
    arrived_at = lists.registered | {marker.delivery: marker.created_at for marker in listing.markers}
    current = services.current.read()
    table = services.warehouse.table(services.feed.target) if reads_bigquery else None
    live = services.ledger.of_generation(current.generation)
    intent = current.intent
    manifest = None if current.generation is None else services.manifests.read(current.generation)
    backlog = lists.backlog(manifest)
    registered = backlog.apply
    unregistered = arrived_at.keys() - lists.registered.keys()
    waiting = tuple(WaitingDelivery(d, arrived_at[d], d in lists.registered) for d in (*registered, *unregistered))
    attempts = services.ledger.recent(current.last_generation, LAST_ATTEMPTS) if waiting else []
    return FeedState(
        feed=services.feed.feed,
        settings=services.feed.freshness,
        current=current,
        current_is_lost=_current_is_lost(services, current, table),
        lease_holder_running=intent is not None and _is_at_work(services, intent),
        live=live,
        history=tuple(r for r in attempts if r.outcome is Outcome.PUBLISHED),
        stopped=_stopped(services, registered, attempts),
        failed_after_swap=() if live is None else failed_checks(services, live.attempt, "after"),
        arrivals=tuple(sorted(arrived_at.values())),
        waiting=waiting,
        refused=tuple(_refused(services, lists.refused, live, manifest)),
        held=tuple(read_held(services, backlog)),
        excluded=() if manifest is None else manifest.excluded,
        included=() if manifest is None else manifest.deliveries,
        invalid_markers=tuple(listing.invalid),
        target=_target_state(services, table, manifest) if reads_bigquery else None,
        watch_dag=watch_dag,
        publish_is_paused=publish_is_paused,
        failed_run=find_failed_run(registered),
        # No audit of a partition that has left the table follows, which would replace its record.
        audits=read_audits(services.store, services.feed.feed).of_table(manifest),
        pending_job=None if intent is None or not reads_bigquery else _pending_job(services, intent),
    )


def _stopped(
    services: Services, registered: tuple[Delivery, ...], attempts: list[LedgerRecord]
) -> StoppedPublish | None:
    """The last run that checked the newest delivery that waits, if checks stopped it before its swap."""
    if not registered:
        return None
    newest, before_dedup = registered[-1], find_stopped_before_dedup(services)
    if before_dedup is not None and newest in before_dedup.deliveries:
        return before_dedup
    return find_stopped(services, newest, None, attempts)


def _current_is_lost(services: Services, current: Current, table: TableMetadata | None) -> bool:
    """Whether CURRENT was deleted. `table`: target, whose label names its generation."""
    is_published = current.last_generation == 0 and labelled_generation(table) is not None
    return current.generation is None and (is_published or services.current.is_lost(current))


def _is_at_work(services: Services, intent: Intent) -> bool:
    """Whether the run that holds the lease is running, or has given the lease back since `intent` was read."""
    return services.is_running(intent.dag_id, intent.run_id) or services.current.read().intent != intent


def _pending_job(services: Services, intent: Intent) -> PendingJob | None:
    """The attempt's last BigQuery job if it waits to start; if that job is a script, its statement that waits."""
    job = services.warehouse.job(intent.jobs[-1]) if intent.jobs else None
    if job is None or job.ended:
        return None
    if job.started_at is None:
        return None if job.created_at is None else PendingJob(job.job_id, job.created_at, is_statement=False)
    for child in services.warehouse.child_jobs(job.job_id):
        if child.started_at is None and child.created_at is not None:
            return PendingJob(child.job_id, child.created_at, is_statement=True)
    return None


def _refused(
    services: Services, recorded: Mapping[Delivery, datetime], live: LedgerRecord | None, manifest: Manifest | None
) -> Iterable[Refusal]:
    """The open refusals among the `recorded` ones. `manifest`: of the live generation.

    A refusal is open if it was recorded since the last swap, or if its delivery is newer than the live ones: a replay,
    rollback, erasure or rebuild swaps, too, but makes no newer delivery live. (The commit after a swap records the
    refusals of the same publish.) It is not open if a later delivery of its snapshot was refused, too, or became live,
    or if a person discarded the delivery.
    """
    included, excluded = ((), ()) if manifest is None else (manifest.deliveries, manifest.excluded)
    decided = sorted([*recorded, *included, *excluded])
    latest = set({delivery.snapshot_id: delivery for delivery in decided}.values())
    newest, swapped_at = newest_live(live, included), None if live is None else live.swapped_at

    def is_open(delivery: Delivery, recorded_at: datetime) -> bool:
        is_recent = swapped_at is None or recorded_at >= swapped_at
        return delivery in latest and (is_recent or newest is None or delivery > newest)

    names = [services.layout.refusal(delivery) for delivery, at in recorded.items() if is_open(delivery, at)]
    for refusal in services.store.read_records(Refusal, names):
        if not refusal.is_discarded:
            yield refusal


def _target_state(services: Services, table: TableMetadata | None, manifest: Manifest | None) -> TargetState:
    """`table`: target's metadata. `manifest`: of the live generation."""
    feed = services.feed
    swap = None if manifest is None else find_swap(services, manifest.attempt)
    cloned_at = swap.checked_at if swap is not None and swap.way is Swap.CLONE else None
    breaks_views = feed.publish.swap is Swap.CLONE
    rows = None if swap is None else _wrong_rows(services, table, manifest)
    latest = services.current.read()  # after target
    is_committed = manifest is not None and latest.generation != manifest.generation  # meanwhile
    return TargetState(
        table=table,
        staging=feed.staging,
        cloned_at=cloned_at,
        # Only the next swap sets a retention that was changed in the feed file since the last one.
        retention_days=feed.table.retention_days if manifest is None else manifest.table.retention_days,
        materialized_views=tuple(services.warehouse.materialized_views_of(feed.target) if breaks_views else ()),
        rows=rows,
        is_changing=is_committed or is_loading_target(services, latest.intent),
    )


def _wrong_rows(services: Services, table: TableMetadata | None, manifest: Manifest | None) -> CheckResult | None:
    """The check of target's rows, if it fails: a partition has another number of rows than the live generation.

    Partitions that expire change the number, too, so the partitions are only read when the number differs.
    """
    if manifest is None or labelled_generation(table) != str(manifest.generation):
        return None
    if table is None or table.rows == manifest.rows:
        return None
    seen = services.warehouse.observe(services.names, services.feed.target)
    result = check_rows("target_rows", manifest, seen)
    is_replaced = seen.table.version != table.version  # by a swap, between the two reads
    return None if result.level is Level.PASS or is_replaced else result
