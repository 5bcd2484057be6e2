"""Takes a feed out of use, so that nothing watches or publishes it any more.

Its state and tables are deleted, target only on request. CURRENT says first that the feed is retired. From then on no
other run works on the feed, so that all later steps can be repeated until they succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import float64_columns
from dedup_clone.publish.attempt_jobs import table_reference
from dedup_clone.publish.erasure.erase_changes import drop_pending_changes
from dedup_clone.publish.planning.parent_generation import changed_target
from dedup_clone.publish.planning.partition_export import (
    export_folder,
    export_partitions,
    wrong_row_counts,
)
from dedup_clone.publish.records.ledger_table import retired_row
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Retirement, TargetAction
from dedup_clone.state.reporting_backlog import ReportingBacklog


@dataclass(frozen=True)
class RetirementRequest:
    """The form of a retirement run. `target`: whether target is kept, exported or dropped."""

    dag_id: str
    run_id: str
    target: TargetAction
    reason: str


def retire_feed(services: Services, request: RetirementRequest) -> Retirement:
    """Retire the feed, and return the record. Safe to repeat.

    Raises LeaseHeld while another run works on the feed, LostRace, FeedHeldElsewhere, ConfigurationError if target is
    to be exported and cannot be, ContractViolation if target or its export has other rows than the manifest, JobFailed
    if an export fails, and what `recover` raises.
    """
    record = services.current.read().retired or _begin(services, request)
    live = None if record.generation is None else _live(services, record.generation)
    if record.target is TargetAction.EXPORT and live is not None:
        _export(services, record.attempt, live)
    if record.target is not TargetAction.KEEP:
        services.warehouse.alterations.drop(services.names.target_table)
    drop_pending_changes(services, before=None)
    names = services.names
    for table in (names.staging_table, names.incoming_table, names.changes_table):
        services.warehouse.alterations.drop(table)
    _delete_state(services, record)
    services.log(f"retired: target [{record.target}]", generation=record.generation)
    return record


def require_exportable(services: Services, request: RetirementRequest, live: Manifest | None) -> None:
    """Raise ConfigurationError if target exists and is to be exported, but cannot be.

    Reasons: no generation says which rows it has, it has others (not looked for while a run holds the lease, because
    its recovery may change that), or an export loses digits. One metadata query.
    """
    target, reason = services.feed.target, None
    if request.target is not TargetAction.EXPORT or services.warehouse.table(target) is None:
        return
    if live is None:
        reason = f"feed [{services.feed.feed}] has no live generation, so nothing here says which rows it has"
    elif floats := float64_columns(live.table.columns):
        reason = f"its FLOAT64 columns [{', '.join(floats)}] would lose digits (exports in Avro keep them)"
    elif services.current.read().intent is None:
        reason = changed_target(services, live)
    if reason:
        raise ConfigurationError(
            f"Target [{target}] cannot be exported: {reason}. Nothing was changed: choose [keep], or export the table "
            f"yourself and choose [drop]."
        )


def _begin(services: Services, request: RetirementRequest) -> Retirement:
    """Acquire the lease, which lasts until the end of the retirement, and write the record."""
    services.current.read_for(services.environment)
    recover(services, dag_id=request.dag_id, run_id=request.run_id)
    generation = services.current.read().generation
    live = None if generation is None else services.manifests.read(generation)
    require_exportable(services, request, live)
    intent = services.current.acquire_lease(
        services.environment, generation, Kind.RETIRE, dag_id=request.dag_id, run_id=request.run_id, now=services.now()
    )
    record = Retirement(
        retired_at=services.now(),
        run_id=request.run_id,
        reason=request.reason,
        target=request.target,
        attempt=intent.attempt,
        generation=intent.parent,
        rows=live.rows if live else 0,
    )
    services.current.retire(intent.attempt, record)
    return record


def _live(services: Services, generation: int) -> Manifest | None:
    """The manifest of the last generation; None if an earlier try of the task deleted it, after the export."""
    return services.store.read_record(Manifest, services.layout.manifest(generation))


def _export(services: Services, attempt: str, live: Manifest) -> None:
    if services.warehouse.table(services.feed.target) is None:
        return  # an earlier try exported and dropped it
    changed = changed_target(services, live)
    if changed:
        raise ContractViolation(f"Retired target was neither exported nor dropped, clear the task to go on: {changed}")
    oldest, _ = services.retention_window()
    rows = {entry.date: entry.rows for entry in live.dates if entry.date >= oldest}
    table = table_reference(services, services.names.target_table)
    files = export_partitions(services, attempt, table, rows, partition_column=services.feed.table.partition_column)
    wrong = wrong_row_counts(files, rows)
    if wrong:
        raise ContractViolation(
            f"The export of retired target [{services.feed.target}] has other row counts than its manifest: "
            f"{'; '.join(wrong[:5])}. Target was not dropped: find out who changed it, then clear the task."
        )


def _delete_state(services: Services, record: Retirement) -> None:
    """Delete the feed's state, except the export, records of what happened, and the seed.

    Without the seed nobody could recognize erased keys.
    """
    layout, store = services.layout, services.store
    retained = (layout.current, layout.ledger, layout.erasures, layout.fingerprint_seed)
    export = export_folder(services, record.attempt)
    for folder in (*store.folders(layout.data), *store.folders(f"{layout.feed}/")):
        if not folder.startswith((*retained, export)) and folder != layout.data:
            store.delete_prefix(folder)
    for info in list(store.objects(f"{layout.feed}/")):
        if not info.name.startswith((*retained, export)):
            store.delete(info.name, expected_object_generation=info.object_generation)
    ReportingBacklog(store).add(layout.feed, record.attempt, retired_row(layout.feed, record))  # the watchdog loads it
    store.delete_prefix(layout.freshness)
    services.current.end_retirement()
