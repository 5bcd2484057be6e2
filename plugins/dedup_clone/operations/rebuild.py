"""Rebuild: the live generation's rows are written anew in the form of a changed feed file, as a new generation.

The rows are handled like those of an existing table that is taken over: the dedup job validates them, proves that the
keys are unique, and writes them anew. Target's rows stay as they are until the swap. If a run ends before its swap,
`discard` gives both tables the layout of the live generation again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.table_checks import check_layout, check_undeclared_options
from dedup_clone.contract.attempt import Attempt, Duplicates, Kind
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, JobFailed
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import (
    added_columns,
    changes_keys,
    column_sources,
    rebuild_problems,
    refused_table_changes,
)
from dedup_clone.contract.table import TableContract
from dedup_clone.operations import takeover
from dedup_clone.operations.takeover import comparison_text, duplicates_text, observe_table, take_over_export
from dedup_clone.publish.attempt_jobs import query_configuration, run_step_job
from dedup_clone.publish.attempts import Form, begin_attempt, write_attempt
from dedup_clone.publish.changes_table import change_rows_to_lose
from dedup_clone.publish.declared_form import shortens_retention, staging_options, swap_options
from dedup_clone.publish.early_checks import check_before_dedup
from dedup_clone.publish.erasure_records import erasures_up_to
from dedup_clone.publish.existing_table import save_existing_table
from dedup_clone.publish.parent_generation import changed_target, live_manifest
from dedup_clone.publish.publish_costs import price_text
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.sql_files import TableNames
from dedup_clone.warehouse.table_options import without_removed_columns

COPY_STEP = "copy"
COPY_SQL_FILE = "rebuild/copy_rows.sql"
COPIED_ROWS_SQL_FILE = "rebuild/copied_rows.sql.jinja"


@dataclass(frozen=True, kw_only=True)
class RebuildRequest(Form):
    """The form of a rebuild run. `renamed`: former name -> new name of a column."""

    renamed: dict[str, str] = field(default_factory=dict)
    duplicates: Duplicates = Duplicates.REFUSE


def preview(services: Services, request: RebuildRequest) -> tuple[int, str]:
    """The live generation, and as Markdown what the rebuild would do."""
    live = _require_rebuildable(services, request)
    names, table = services.names, services.feed.table.to_contract()
    size = copy_bytes(services, live, request.renamed)
    copied = f"a query reads all rows, {price_text(size)}; the copy is stored for some hours"
    # Approximately what the check before the swap compares: it leaves out dates with duplicate keys.
    oldest, _ = services.retention_window()
    days = [e.date for e in live.dates_with_rows if e.date >= oldest]
    lost = change_rows_to_lose(services, table) if services.feed.changes else None
    lines = [
        f"**{services.feed.feed}: rebuild {names.target_table} as its feed file declares it**",
        "",
        *(f"- {change}" for change in _changes(live.table, table, request.renamed)),
        f"- Copy: {copied if size else 'none, because no column changes'}.",
        f"- Comparison with staging, of all columns: {comparison_text(services, days)}.",
        "- The Spark job reads and writes all rows. Export and load are free.",
        f"- {duplicates_text(services, request.duplicates)}",
        "- Readers see the present table until one statement replaces it, under the same name. Queries that name a "
        "dropped or renamed column fail from then on.",
        "- No rollback can restore a generation before the rebuild. The past table can be read by time travel, "
        "for seven days at most.",
        "- Snapshots in the former form are refused from now on, replayed ones too.",
        f"- Deliveries that wait now: {waiting_names(services, live)}. They are published afterwards, if they have the "
        f"new form.",
    ]
    if lost is not None:
        lines.append(f"- {names.changes_table} is made anew by later publishes, and loses its {lost} rows.")
    return live.generation, "\n".join(lines)


def prepare(services: Services, request: RebuildRequest, live_shown: int) -> Attempt:
    """Recover a dead run, acquire the lease, write the attempt."""
    recover(services, request)
    live = _require_rebuildable(services, request, shown=live_shown)
    attempt = begin_attempt(services, request, Kind.REBUILD, live.generation, snapshot_id=live.snapshot_id)
    attempt = take_over_export(attempt, request.duplicates, live)
    write_attempt(services, attempt, "rebuild")
    return attempt


def export(services: Services, request: RebuildRequest, attempt: Attempt) -> None:
    """Export target's rows. Safe to repeat.

    If columns change, the rows are first copied into the attempt's incoming table, which has the declared columns, and
    exported from there.

    Raises BootstrapRefused, LostRace, JobFailed, and ConfigurationError for a value that does not fit its new type.
    """
    live, names = services.manifests.read(attempt.parent or 0), services.names.of_attempt(attempt.id)
    configuration = _query_of_rows(services, names, live, request.renamed, COPY_SQL_FILE)
    if configuration is not None:
        try:
            run_step_job(services, attempt.id, COPY_STEP, lambda: configuration)
        except JobFailed as error:
            if not error.is_invalid_input:
                raise
            raise ConfigurationError(
                f"Rows of [{services.feed.target}] do not fit the declared columns: {error.message}. Nothing was "
                f"changed. Declare a type that holds them, or let a snapshot correct them before the rebuild."
            ) from error
    table = names.target_table if configuration is None else names.incoming_table
    save_existing_table(services, attempt.id, observe_table(services, table))
    takeover.export(services, request, attempt)


def copy_bytes(services: Services, live: Manifest, renamed: Mapping[str, str]) -> int:
    """The bytes that the copy reads, by a dry run; 0 if no column changes.

    Raises ConfigurationError when BigQuery refuses the statement.
    """
    configuration = _query_of_rows(services, services.names, live, renamed, COPIED_ROWS_SQL_FILE)
    if configuration is None:
        return 0
    try:
        return services.warehouse.jobs.dry_run_bytes(configuration)
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        raise ConfigurationError(
            f"BigQuery cannot copy the rows of [{services.feed.target}] into the declared columns: {error.message}. "
            f"Nothing was changed. Choose a type into which BigQuery casts, or a new column."
        ) from error


def _query_of_rows(
    services: Services, names: TableNames, live: Manifest, renamed: Mapping[str, str], sql_file: str
) -> dict[str, Any] | None:
    """A query of target's rows in the declared columns; None if no column changes."""
    table = services.feed.table.to_contract()
    if live.table.columns == table.columns:
        return None
    sql = services.warehouse.render(
        sql_file,
        names=names,
        table=table,
        options=services.feed.table.options,
        sources=column_sources(live.table, table, renamed),
    )
    oldest, _ = services.retention_window()
    return query_configuration(services, "copy", sql, {"retention_day": ("DATE", oldest.isoformat())})


def _changes(before: TableContract, after: TableContract, renamed: Mapping[str, str]) -> Iterator[str]:
    yield from refused_table_changes(before, after)
    if before.cluster_by != after.cluster_by:
        yield f"clustered by [{', '.join(after.cluster_by)}], it was [{', '.join(before.cluster_by)}]"
    for former, new in renamed.items():
        yield f"column [{former}] becomes [{new}], with its values"
    for name in added_columns(before.columns, after.columns):
        if name not in renamed.values():
            yield f"new column [{name}], with NULL in all rows"


def _require_rebuildable(services: Services, request: RebuildRequest, *, shown: int | None = None) -> Manifest:
    """The live generation's manifest. Raises ConfigurationError with everything that prevents the rebuild."""
    live = live_manifest(services, "rebuild", shown=shown)
    problems = list(_problems(services, live, request.renamed))
    if problems:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] cannot be rebuilt, and nothing was changed: {'; '.join(problems)}. Correct "
            f"these (docs/feeds.md, rebuild the table), deploy, and trigger the DAG again."
        )
    return live


def _problems(services: Services, live: Manifest, renamed: Mapping[str, str]) -> Iterator[str]:
    feed, table = services.feed, services.feed.table.to_contract()
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    yield from rebuild_problems(live.table, table, renamed)
    # Compare the tables with the layout of the live generation, because the feed file may declare another one now.
    layout = [check_layout(staging, target, live.table)] if staging is not None else []
    results = [
        *layout,
        *(r for r in check_before_dedup(services, live.generation, Kind.REBUILD).items if r.check != "layout"),
    ]
    yield from (str(result) for result in results if result.level is Level.FAIL)
    if services.current.read().intent is None:  # else a recovery may change which rows target has
        reason = changed_target(services, live)
        yield from [reason] if reason else []
    if feed.engine is Engine.CDC:
        yield "engine [cdc] streams into staging: publish a snapshot with engine [spark] first"
    if staging is not None and shortens_retention(table.retention_days, staging):
        yield f"retention_days is shorter than staging's: approve that first, `make plan FEED={feed.feed} APPLY=1`"
    if erasures_up_to(services, live.generation) and changes_keys(live.table, table, renamed):
        yield (
            "keys were erased, and are kept out of the table by hashes of the present key columns: leave the key "
            "columns, their names and types as they are"
        )
    if staging is None or target is None:
        return
    if (live.table.columns, live.table.cluster_by) != (table.columns, table.cluster_by):  # staging is made anew
        yield from _lost_with_staging(services, staging, target)


def _lost_with_staging(services: Services, staging: TableMetadata, target: TableMetadata) -> Iterator[str]:
    """Policies and options that target has from staging, and that a new staging table would lack."""
    feed = services.feed
    policies = services.warehouse.policies(feed.staging)
    if policies.row_access or policies.column_tags:
        yield (
            f"staging is made anew and would lack its row access policies {sorted(policies.row_access)} and policy "
            f"tags of {sorted(policies.column_tags)}: publish the changed table as a feed of another name"
        )
    from_staging = {name: value for name, value in target.options.items() if name in staging.options}
    lost = check_undeclared_options(
        target=without_removed_columns(from_staging, retained={c.name for c in feed.table.to_contract().columns}),
        staging={},  # what staging has is lost, unless it is declared
        declared={**swap_options(feed.table), **staging_options(feed.table)},
        last_set={},
    )
    if lost.level is Level.FAIL:
        yield f"staging is made anew and would lack {lost.found}: {lost.next_step}"
