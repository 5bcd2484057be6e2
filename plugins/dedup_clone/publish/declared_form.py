"""Compares the published table with its feed file, and gives staging the form that the file declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import (
    added_columns,
    refused_column_changes,
    refused_table_changes,
    relaxed_columns,
    widened_columns,
    with_wider_types,
)
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.attempt_jobs import query_configuration, run_step_job
from dedup_clone.publish.services import Services
from dedup_clone.settings.table_settings import TableSettings
from dedup_clone.state.current import Intent, Staging, lease_held_error
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import (
    FRIENDLY_NAME,
    KMS_KEY,
    PARTITION_FILTER,
    PRIMARY_KEY,
    description_entry,
    label_entry,
)

DROP_SQL_FILE = "ddl/drop_table.sql"
ENDED_LABEL = "dedup_clone_ended"  # of target: the last rebuild that ended without a swap


def refuse_impossible_changes(services: Services, engine: Engine, parent: Manifest | None) -> None:
    """Raise ConfigurationError if a publish with this engine must refuse what the feed file declares."""
    feed = services.feed
    problems = list(refusals(services, engine, parent, services.warehouse.table(feed.staging)))
    if problems:
        raise ConfigurationError(
            f"Feed [{feed.feed}] changes the live table in a way that this publish cannot make: "
            f"{'; '.join(problems)}. Nothing was changed. If this is not meant, put the former values back. Else see "
            f"docs/feeds.md, change a feed; `make plan FEED={feed.feed}` shows all differences, and whether "
            "dedup_clone_rebuild makes them."
        )


def refusals(
    services: Services, engine: Engine, parent: Manifest | None, staging: TableMetadata | None
) -> Iterator[str]:
    """Why a publish with this engine must refuse what the feed file declares, each with the next step.

    None without a parent. The next step may be an approval or another engine.
    """
    if parent is None:
        return
    declared = services.feed.table.to_contract()
    refused = refused_table_changes(parent.table, declared)
    yield from refused
    if not refused:
        yield from _unsupported_changes(engine, parent, declared.columns)
        if staging is not None:
            yield from _changes_of_staging(staging, declared.columns)
    if staging is not None and shortens_retention(declared.retention_days, staging):
        lost = lost_dates(services, parent)
        staging_days = "all" if staging.expiration_days is None else f"{staging.expiration_days:g}"
        yield (
            f"retention_days is [{declared.retention_days}], staging keeps [{staging_days}] days, and readers would "
            f"lose [{len(lost)}] dates with [{sum(lost.values())}] rows: approve that with "
            f"`make plan FEED={services.feed.feed} APPLY=1`"
        )


def _changes_of_staging(staging: TableMetadata, declared: tuple[Column, ...]) -> Iterator[str]:
    """One text if staging, which an earlier run may have changed, cannot get the declared columns."""
    problems = refused_column_changes(staging.columns, declared)
    if problems:
        yield (
            "an earlier run already changed staging to a former version of this feed file, and the present file "
            f"differs ({', '.join(problems)}): declare it again as staging has it"
        )


def _unsupported_changes(engine: Engine, parent: Manifest, declared: tuple[Column, ...]) -> Iterator[str]:
    """One text if there are column changes that only Spark can make, and this engine does not run it."""
    before = parent.table.columns
    nested = [path for path in added_columns(before, declared) if "." in path]
    new = [*nested, *widened_columns(before, declared)]
    if new and not engine.runs_spark:
        yield (
            f"engine [{engine}] cannot widen columns or add nested ones {new}: publish one snapshot with engine "
            f"[{Engine.SPARK}], then go on with engine [{engine}]"
        )


def shortens_retention(retention_days: int, staging: TableMetadata) -> bool:
    """Whether `retention_days` is less than the days for which staging keeps its partitions now."""
    return staging.expiration_days is None or retention_days < staging.expiration_days


def lost_dates(services: Services, parent: Manifest) -> dict[str, int]:
    """The live generation's dates that its own retention keeps, but the feed file's drops: date as text -> its rows."""
    oldest, latest = services.retention_window()
    live_oldest = parent.table.oldest_day(latest - timedelta(days=1))
    return {str(entry.date): entry.rows for entry in parent.dates_with_rows if live_oldest <= entry.date < oldest}


def swap_options(table: TableSettings) -> dict[str, str]:
    """The entries that each swap sets on target."""
    options = table.options
    entries = {label_entry(key): value for key, value in options.labels.items()}
    if options.friendly_name:
        entries[FRIENDLY_NAME] = options.friendly_name
    if options.kms_key:
        entries[KMS_KEY] = options.kms_key
    if options.require_partition_filter:
        entries[PARTITION_FILTER] = "true"
    return entries


def staging_options(table: TableSettings) -> dict[str, str]:
    """The entries that are set on staging. Each clone takes them from there."""
    entries = {description_entry(path): text for path, text in table.descriptions().items()}
    if table.primary_key:
        entries[PRIMARY_KEY] = ", ".join(table.keys)
    return entries


def prepare_staging(services: Services) -> None:
    """Create staging if it does not exist, and give it the form that the feed file declares.

    Call it while the run holds the lease. A shorter retention, which deletes rows, is set by `approve_retention` only.
    """
    require_staging(services, services.feed.table.to_contract())
    alter_table(services, services.feed.staging)


def require_staging(services: Services, table: TableContract) -> None:
    """Create staging with the form of `table` if somebody dropped it. Call it while the run holds the lease."""
    if services.warehouse.table(services.feed.staging) is None:
        services.current.forget_staging()
        services.warehouse.create_staging(services.names, table, services.feed.table.options)


def alter_table(services: Services, name: str) -> None:
    """Set wider types, NULLABLE modes, KMS key, a longer retention, descriptions and the primary key of this table.

    The load adds new columns; for an engine in SQL `add_columns_for_queries` adds them. Raises LookupError if the table
    is absent.
    """
    table, found = services.feed.table, services.warehouse.table(name)
    if found is None:
        raise LookupError(f"Table [{name}] is gone: clear the run from its first task.")
    columns = table.to_contract().columns
    declared_columns = {column.name: column for column in columns}
    wider = [with_wider_types(c, declared_columns.get(c.name, c)) for c in found.columns]
    names = replace(services.names, staging_table=name)  # the statement alters `names.staging`
    services.warehouse.widen_columns(names, [c for c in wider if c not in found.columns])
    relaxed = relaxed_columns(found.columns, columns)
    if relaxed:
        services.warehouse.alterations.relax_columns(name, relaxed)
    if table.options.kms_key and found.options.get(KMS_KEY) != table.options.kms_key:
        services.warehouse.alterations.set_kms_key(name, table.options.kms_key)
    days = table.retention_days
    if found.expiration_days != days and not shortens_retention(days, found):
        _set_retention(services, name)
    declared = staging_options(table)
    if any(found.options.get(entry) != value for entry, value in declared.items()):
        primary_key = table.keys if PRIMARY_KEY in declared else ()
        services.warehouse.alterations.describe(name, table.descriptions(), primary_key)


def add_columns_for_queries(services: Services) -> None:
    """Add the new columns of the feed file to staging and target, from which an engine in SQL reads all columns.

    Readers of target see them before the swap, with NULL. Call it while the run holds the lease.
    """
    columns = services.feed.table.to_contract().columns
    for name in (services.feed.staging, services.feed.target):
        table = services.warehouse.table(name)
        added = added_columns(table.columns, columns) if table else []
        if added:
            services.warehouse.alterations.add_columns(name, [c for c in columns if c.name in added])


def approve_retention(services: Services) -> None:
    """Let staging keep its partitions only as long as the feed file says, which is shorter than now.

    The next swap sets it on target. Raises ConfigurationError if it is not shorter, and LeaseHeld while a run holds the
    lease, because that run's checks count staging's rows.
    """
    feed, staging = services.feed, services.warehouse.table(services.feed.staging)
    if staging is None or not shortens_retention(feed.table.retention_days, staging):
        raise ConfigurationError(
            f"Feed [{feed.feed}] has no shorter retention to approve: retention_days is [{feed.table.retention_days}], "
            f"and [{feed.staging}] keeps no date for longer, or does not exist. Nothing was changed."
        )
    intent = services.current.read().intent
    if intent is not None:
        raise lease_held_error(services.feed.feed, intent)
    _set_retention(services, feed.staging)


def set_layout_of_staging(services: Services, attempt: str) -> None:
    """Before a rebuild loads staging, give it the columns and clustering that the feed file declares now.

    If they differ from those that staging has, staging is dropped and created.
    """
    staging = services.warehouse.table(services.feed.staging)
    if staging is not None and not _has_layout(staging, services.feed.table.to_contract()):
        services.current.record_staging(Staging(attempt))
        drop_staging(services, attempt)
    prepare_staging(services)


def drop_staging(services: Services, attempt: str) -> None:
    """Drop staging by a recorded job, which a recovery fences. Raises what `run_step_job` raises."""
    drop_once(services, attempt, "drop", services.feed.staging, is_recorded=True)


def set_clustering_of_target(services: Services, attempt: str, target: TableMetadata, table: TableContract) -> None:
    """Give target the clustering of `table`: BigQuery replaces a table only by one of equal clustering. Rows stay.

    Raises LeaseLost if the attempt is being ended. `restore_tables` changes target's version, so this raises LostRace,
    or BigQuery refuses the change, if the attempt is ended right now.
    """
    services.current.record_jobs(attempt, ())  # after `target` was read
    if target.cluster_by != table.cluster_by:
        services.warehouse.alterations.set_clustering(target.name, table.cluster_by, version=target.version)


def restore_tables(services: Services, intent: Intent) -> None:
    """After a rebuild that ended before its swap, give staging and target the live generation's layout again.

    If staging has another layout, it is dropped and created, without rows, so that the next publish loads all rows.
    Nothing is done if the rebuild ended before it loaded or dropped staging. Raises LostRace if target is changed
    meanwhile, perhaps by a later rebuild, after another run has ended this one.
    """
    staging, target = services.warehouse.table(services.feed.staging), services.warehouse.table(services.feed.target)
    state = services.current.read().staging  # after the tables were read
    if intent.parent is None or state is None or state.attempt != intent.attempt:
        return
    table = services.manifests.read(intent.parent).table
    if target is not None:
        services.warehouse.alterations.set_clustering(
            services.feed.target, table.cluster_by, version=target.version, labels={ENDED_LABEL: intent.attempt}
        )
    if staging is None or not _has_layout(staging, table):
        services.current.forget_staging()
        # Two runs may end the attempt. The second drops no staging that was loaded since.
        drop_once(services, intent.attempt, "restore", services.feed.staging)
        services.warehouse.create_staging(services.names, table, services.feed.table.options)


def drop_once(services: Services, attempt: str, step: str, table: str, *, is_recorded: bool = False) -> None:
    """Drop the table, if it exists, unless another try of the step has: its successor of the same name then stays.

    All tries find the same job. So a task that only seemed dead drops nothing when it wakes up. Raises what
    `run_step_job` raises.
    """
    sql = services.warehouse.render(DROP_SQL_FILE, names=replace(services.names, staging_table=table))
    configuration = query_configuration(services, "drop", sql, {})
    run_step_job(services, attempt, step, lambda: configuration, is_recorded=is_recorded)


def _has_layout(staging: TableMetadata, table: TableContract) -> bool:
    return (staging.columns, staging.cluster_by) == (table.columns, table.cluster_by)


def _set_retention(services: Services, table: str) -> None:
    days = services.feed.table.retention_days
    services.warehouse.alterations.set_partition_expiration(table, days)
    services.log(f"table {table} keeps its partitions for {days} days from now on")
