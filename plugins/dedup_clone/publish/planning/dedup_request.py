"""Builds an attempt's request to the dedup job from the feed's settings and the decisions of the run's first task."""

from __future__ import annotations

from datetime import UTC, date

import dedup_clone
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.request import (
    DedupRequest,
    Duplicates,
    ParentGeneration,
    Plan,
    RequestedChanges,
    RequestedDelivery,
)
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent


def build_dedup_request(
    services: Services,
    intent: Intent,
    *,
    engine: Engine,
    plan: Plan,
    date_folders: bool,
    oldest: date,
    latest: date,
    deliveries: tuple[RequestedDelivery, ...],
    folded: tuple[Delivery, ...],
    excluded: tuple[Delivery, ...],
    parent: ParentGeneration | None = None,
    dates: tuple[date, ...] | None = None,
    takes_over: Duplicates | None = None,
    erasures: tuple[str, ...] = (),
    erases: str = "",
) -> DedupRequest:
    """Return the request of the intent's attempt. `oldest`, `latest`: the first and the last date that rows may have.

    `date_folders`: whether each date of a delivery has a folder. `DedupRequest` explains the other arguments.
    """
    feed, layout = services.feed, services.layout
    finds_changes = engine is Engine.CDC or (feed.changes and engine is Engine.SPARK)
    return DedupRequest(
        feed=feed.feed,
        kind=intent.kind,
        generation=intent.generation,
        attempt=intent.attempt,
        run_id=intent.run_id,
        code_version=dedup_clone.__version__,
        table=feed.table.to_contract(),
        update_id_mode=feed.update_id_mode,
        engine=engine,
        date_folders=date_folders,
        plan=plan,
        retention_day=oldest,
        latest_day=latest,
        deliveries=deliveries,
        folded=folded,
        excluded=excluded,
        parent=parent,
        data_uri=services.store.uri(layout.data_folder(intent.attempt)),
        attempt_uri=services.store.uri(layout.attempt_folder(intent.attempt)),
        seed_uri=services.store.uri(layout.fingerprint_seed),
        exact=feed.dedup.exact,
        compare_values=feed.dedup.compare_values,
        file_bytes=feed.dedup.file_megabytes << 20,
        dates=dates,
        takes_over=takes_over,
        since=feed.table.since(),
        erasures=erasures,
        erases=erases,
        form=feed.form,
        changes=_requested_changes(services, intent) if finds_changes else None,
    )


def _requested_changes(services: Services, intent: Intent) -> RequestedChanges:
    folder = services.store.uri(services.layout.changes_folder(intent.attempt))
    return RequestedChanges(folder, services.now().astimezone(UTC).date())
