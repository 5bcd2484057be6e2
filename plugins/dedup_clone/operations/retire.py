"""Retirement: takes a feed out of use, so that nothing watches or publishes it any more.

Its state and tables are deleted, target only on request. CURRENT says first that the feed is retired. From then on no
other run works on the feed, so that all later steps can be repeated until they succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import float64_columns
from dedup_clone.operations.erase import drop_pending_changes
from dedup_clone.operations.first_task import recover_before
from dedup_clone.publish.attempt_jobs import table_reference
from dedup_clone.publish.parent_generation import (
    changed_target,
    export_folder,
    export_partitions,
    wrong_row_counts,
)
from dedup_clone.publish.reporting import retired_row
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Retirement, TargetAction
from dedup_clone.state.ledger import ReportingBacklog


@dataclass(frozen=True)
class RetirementRequest:
    """The form of a retirement run. `target`: whether target is kept, exported or dropped."""

    dag_id: str
    run_id: str
    target: TargetAction
    reason: str


def preview(services: Services, request: RetirementRequest) -> str:
    """What the retirement would do, as Markdown."""
    services.current.read_for(services.environment)
    live = _require_retirable(services, request)
    feed, days = services.feed, services.feed.table.retention_days
    views = services.warehouse.materialized_views_of(feed.target)
    erase_before = (
        "Keys of a person can **no longer be erased** from what stays: do that before, or choose [drop] "
        "(docs/feeds.md, retire a feed)"
    )
    target = {
        TargetAction.KEEP: f"stays as it is, for its readers. Its partitions go on expiring after {days} days, so it "
        f"will be empty then. {erase_before}",
        TargetAction.EXPORT: f"is exported to Parquet files in state, compared, and dropped. {erase_before}",
        TargetAction.DROP: "is **dropped**. BigQuery's time travel can restore it for some days",
    }[request.target]
    shown = f"generation {live.generation}, snapshot {live.snapshot_id}, {live.rows} rows" if live else "nothing"
    lines = [
        f"**Retire {feed.feed}**",
        "",
        f"- Live: {shown}.",
        f"- Target [{feed.target}] {target}.",
        f"- Tables [{feed.staging}] and, if it exists, [{services.names.changes_table}] are dropped.",
        f"- Deleted in [{services.store.uri(f'{services.layout.feed}/')}]: data files, manifests, arrivals, attempts, "
        f"the page's index. Kept: the ledger, records of erasures with the secret of their hashes, and CURRENT, which "
        f"says what was done.",
        "- The feed leaves the page, the watchdog's checks and the status view. Its rows in the ledger table stay.",
        f"- Deliveries that wait and will not be published: {waiting_names(services, live)}. Landing stays as it is.",
        f"- Materialized views over target: {', '.join(views) or 'none'}.",
        "- Afterwards delete the feed's file and release that (`make deploy`): until then its DAGs do nothing.",
    ]
    return "\n".join(lines)


def prepare(services: Services, request: RetirementRequest) -> Retirement:
    """Recover a dead run, acquire the lease, which lasts until the end of the retirement, and write the record.

    If an earlier try has written the record, return that.
    """
    retired = services.current.read().retired
    if retired is not None:
        return retired
    recover_before(services, request)
    live = _require_retirable(services, request)
    intent = services.current.acquire_lease(
        services.environment,
        live.generation if live else None,
        Kind.RETIRE,
        dag_id=request.dag_id,
        run_id=request.run_id,
        now=services.now(),
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


def retire(services: Services, request: RetirementRequest) -> Retirement:
    """Retire the feed, and return the record. Safe to repeat.

    Raises ContractViolation if target or its export has other rows than the manifest.
    """
    record, names = prepare(services, request), services.names
    if record.target is TargetAction.EXPORT and record.generation is not None:
        _export(services, record.attempt, record.generation)
    if record.target is not TargetAction.KEEP:
        services.warehouse.alterations.drop(names.target_table)
    drop_pending_changes(services, before=None)
    for table in (names.staging_table, names.incoming_table, names.changes_table):
        services.warehouse.alterations.drop(table)
    _delete_state(services, record)
    services.log(f"retired: target [{record.target}]", generation=record.generation)
    return record


def _require_retirable(services: Services, request: RetirementRequest) -> Manifest | None:
    """The live generation's manifest; None without one.

    Raises ConfigurationError if target exists and is to be exported, but cannot be. Reasons: no generation says which
    rows it has, it has others (not looked for while a run holds the lease, because its recovery may change that), or an
    export loses digits. One metadata query.
    """
    current, target, reason = services.current.read(), services.feed.target, None
    live = None if current.generation is None else services.manifests.read(current.generation)
    if request.target is not TargetAction.EXPORT or services.warehouse.table(target) is None:
        return live
    if live is None:
        reason = f"feed [{services.feed.feed}] has no live generation, so nothing here says which rows it has"
    elif floats := float64_columns(live.table.columns):
        reason = f"its FLOAT64 columns [{', '.join(floats)}] would lose digits (exports in Avro keep them)"
    elif current.intent is None:
        reason = changed_target(services, live)
    if reason:
        raise ConfigurationError(
            f"Target [{target}] cannot be exported: {reason}. Nothing was changed: choose [keep], or export the table "
            f"yourself and choose [drop]."
        )
    return live


def _export(services: Services, attempt: str, generation: int) -> None:
    live = services.manifests.find(generation)
    if live is None or services.warehouse.table(services.feed.target) is None:
        return  # an earlier try exported and dropped target
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
    ReportingBacklog(store).add_row(
        layout.feed, record.attempt, retired_row(layout.feed, record)
    )  # the watchdog loads it
    store.delete_prefix(layout.freshness)
    services.current.end_retirement()
