"""Describes what a rebuild would do, and finds what prevents it. Changes nothing and acquires no lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.option_checks import check_undeclared_options
from dedup_clone.checks.table_checks import check_layout
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import Duplicates
from dedup_clone.contract.schema_change import added_columns, refused_table_changes
from dedup_clone.contract.table import TableContract
from dedup_clone.contract.table_rebuild import (
    changes_keys,
    column_sources,
    columns_differ,
    makes_staging_anew,
    rebuild_problems,
)
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.bootstrap.bootstrap_checks import evenly_spaced
from dedup_clone.publish.check import results_before_dedup
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.partition_comparison import comparison_bytes
from dedup_clone.publish.planning.declared_changes import shortens_retention
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.planning.parent_generation import changed_target
from dedup_clone.publish.records.changes_table import change_rows_to_lose
from dedup_clone.publish.records.erasure_records import erasures_up_to
from dedup_clone.publish.records.publish_costs import price_text
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import waiting_names
from dedup_clone.warehouse.table_options import without_removed_columns

COPY_SQL_FILE = "rebuild/copy_rows.sql"
COPIED_ROWS_SQL_FILE = "rebuild/copied_rows.sql.jinja"


@dataclass(frozen=True)
class RebuildRequest:
    """The form of a rebuild run. `renamed`: former name -> new name of a column.

    `compared_dates`: the number of dates that are compared in all columns before the swap, by one query each.
    """

    dag_id: str
    run_id: str
    reason: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    duplicates: Duplicates = Duplicates.REFUSE
    compared_dates: int = 3


def preview_rebuild(services: Services, request: RebuildRequest) -> tuple[int, str]:
    """The live generation, and as Markdown what the rebuild would do.

    Raises what `require_rebuildable` and `copy_bytes` raise.
    """
    live = require_rebuildable(services, request)
    names, before, after = services.names, live.table, services.feed.table.to_contract()
    lost = change_rows_to_lose(services, after) if services.feed.changes else None
    lines = [
        f"**{services.feed.feed}: rebuild {names.target_table} as its feed file declares it**",
        "",
        *(f"- {change}" for change in _changes(before, after, request)),
        f"- Copy: {_copy_text(services, live, request)}.",
        f"- Comparison with staging, of all columns: {_comparison_text(services, live, request)}.",
        "- The Spark job reads and writes all rows. Export and load are free.",
        _duplicates_line(services, request),
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


def _changes(before: TableContract, after: TableContract, request: RebuildRequest) -> Iterator[str]:
    yield from refused_table_changes(before, after)
    if before.cluster_by != after.cluster_by:
        yield f"clustered by [{', '.join(after.cluster_by)}], it was [{', '.join(before.cluster_by)}]"
    for former, new in request.renamed.items():
        yield f"column [{former}] becomes [{new}], with its values"
    for name in added_columns(before.columns, after.columns):
        if name not in request.renamed.values():
            yield f"new column [{name}], with NULL in all rows"


def _copy_text(services: Services, live: Manifest, request: RebuildRequest) -> str:
    size = copy_bytes(services, live, request)
    if not size:
        return "none, because no column changes"
    return f"a query reads all rows, {price_text(size)}; {services.names.incoming_table} is stored for some hours"


def _comparison_text(services: Services, live: Manifest, request: RebuildRequest) -> str:
    """Approximately what the check before the swap compares: it leaves out dates with duplicate keys."""
    oldest, _ = services.retention_window()
    days = evenly_spaced([e.date for e in live.dates if e.rows and e.date >= oldest], request.compared_dates)
    if not days:
        return "none, because the form has 0 dates to compare"
    size = comparison_bytes(services, services.names, live.table.partition_column, days)
    return f"{len(days)} dates ({format_dates(days)}), by one query each, together about {price_text(size)}"


def _duplicates_line(services: Services, request: RebuildRequest) -> str:
    if request.duplicates is Duplicates.KEEP_LATEST:
        return (
            f"- **Rows may be dropped**: of rows with the same key only the one of the highest "
            f"{services.feed.table.snapshot_id_column} stays. `ties` in the ledger record counts the others."
        )
    return "- If rows have the same key, the run ends, and the error names the key."


def require_rebuildable(services: Services, request: RebuildRequest) -> Manifest:
    """Return the live generation's manifest.

    Raises ConfigurationError with everything that prevents the rebuild, FeedHeldElsewhere.
    """
    generation = services.current.read_for(services.environment).generation
    if generation is None:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] has no live generation: land its first snapshot instead."
        )
    live = services.manifests.read(generation)
    problems = list(_problems(services, live, request))
    if problems:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] cannot be rebuilt, and nothing was changed: {'; '.join(problems)}. Correct "
            f"these (docs/change-a-feed.md), deploy, and trigger the DAG again."
        )
    return live


def copy_configuration(services: Services, live: Manifest, request: RebuildRequest) -> dict[str, Any] | None:
    """The query that copies the rows into the incoming table; None if no column changes."""
    return _query_of_rows(services, live, request, COPY_SQL_FILE)


def copy_bytes(services: Services, live: Manifest, request: RebuildRequest) -> int:
    """The bytes that the copy reads, by a dry run. Raises ConfigurationError when BigQuery refuses the statement."""
    from google.api_core.exceptions import BadRequest

    # Dry-run only the SELECT: CREATE TABLE fails if a rebuild that died has left the incoming table.
    configuration = _query_of_rows(services, live, request, COPIED_ROWS_SQL_FILE)
    if configuration is None:
        return 0
    try:
        return services.warehouse.jobs.dry_run_bytes(configuration)
    except BadRequest as error:
        raise ConfigurationError(
            f"BigQuery cannot copy the rows of [{services.feed.target}] into the declared columns: {error.message}. "
            f"Nothing was changed. Choose a type into which BigQuery casts, or a new column."
        ) from error


def _query_of_rows(services: Services, live: Manifest, request: RebuildRequest, sql_file: str) -> dict[str, Any] | None:
    """A query of target's rows in the declared columns; None if no column changes."""
    table = services.feed.table.to_contract()
    if not columns_differ(live.table, table):
        return None
    sql = services.warehouse.render(
        sql_file,
        names=services.names,
        table=table,
        options=services.feed.table.options.to_contract(),
        sources=column_sources(live.table, table, request.renamed),
    )
    oldest, _ = services.retention_window()
    return query_configuration(services, "copy", sql, {"retention_day": ("DATE", oldest.isoformat())})


def _problems(services: Services, live: Manifest, request: RebuildRequest) -> Iterator[str]:
    feed, table = services.feed, services.feed.table.to_contract()
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    yield from rebuild_problems(live.table, table, request.renamed)
    # Compare the tables with the layout of the live generation, because the feed file may declare another one now.
    layout = [check_layout(staging, target, live.table)] if staging is not None else []
    results = [*layout, *(r for r in results_before_dedup(services, live.generation) if r.check != "layout")]
    yield from (str(result) for result in results if result.level is Level.FAIL)
    yield from _unreadable_rows(services, live)
    if feed.engine is Engine.CDC:
        yield "engine [cdc] streams into staging: publish a snapshot with engine [spark] first"
    if staging is not None and shortens_retention(table.retention_days, staging):
        yield f"retention_days is shorter than staging's: approve that first, `make plan FEED={feed.feed} APPLY=1`"
    if erasures_up_to(services, live.generation) and changes_keys(live.table, table, request.renamed):
        yield (
            "keys were erased, and are kept out of the table by hashes of the present key columns: leave the key "
            "columns, their names and types as they are"
        )
    if staging is None or target is None or not makes_staging_anew(live.table, table):
        return
    policies = services.warehouse.policies(feed.staging)
    if policies.row_access or policies.column_tags:
        yield (
            f"staging is made anew and would lack its row access policies {sorted(policies.row_access)} and policy "
            f"tags of {sorted(policies.column_tags)}: publish the changed table as a feed of another name"
        )
    declared = {**swap_options(feed.table), **staging_options(feed.table)}
    from_staging = {name: value for name, value in target.options.items() if name in staging.options}
    lost = check_undeclared_options(
        target=without_removed_columns(from_staging, retained={c.name for c in table.columns}),
        staging={},  # what staging has is lost, unless it is declared
        declared=declared,
        last_set={},
    )
    if lost.level is Level.FAIL:
        yield f"staging is made anew and would lack {lost.found}: {lost.next_step}"


def _unreadable_rows(services: Services, live: Manifest) -> Iterator[str]:
    """What prevents the export of target's rows. One metadata query."""
    if services.current.read().intent is None:  # else a recovery may change which rows target has
        reason = changed_target(services, live)
        yield from [reason] if reason else []
