"""Describes what a bootstrap would do, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.option_checks import OR_REMOVE
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.bootstrap.bootstrap_checks import evenly_spaced
from dedup_clone.publish.bootstrap.existing_table import (
    ExistingTable,
    describe_partitions,
    existing_table_names,
    read_existing_table,
)
from dedup_clone.publish.bootstrap.existing_table_problems import (
    undeclared_options,
    undeclared_policy_tags,
    undeclared_row_policies,
)
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest, refuse_unaccepted
from dedup_clone.publish.date_ranges import DATES_NAMED, MAX_RANGE_DAYS, format_dates
from dedup_clone.publish.partition_comparison import comparison_bytes
from dedup_clone.publish.records.publish_costs import price_text, size_text
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import waiting_names
from dedup_clone.warehouse.metadata import TableMetadata

DUPLICATES_SQL_FILE = "bootstrap/duplicates.sql"


def preview_bootstrap(services: Services, request: BootstrapRequest, count_limit_bytes: int) -> tuple[str, str]:
    """The version of the existing table, and as Markdown what the bootstrap would do.

    A query counts duplicate keys if it would read at most `count_limit_bytes`. Raises BootstrapRefused if the table
    does not fit the feed, and for what the form must accept or resolve; ConfigurationError, FeedHeldElsewhere,
    JobFailed.
    """
    services.current.read_for(services.environment)
    existing = read_existing_table(services, request.source_table)
    duplicates, surplus_rows = _count_duplicates(services, existing, count_limit_bytes)
    refused = []
    if surplus_rows and request.duplicates is Duplicates.REFUSE:
        refused.append(
            f"Table [{existing.name}] has {duplicates}. List them with the query in docs/bootstrap.md and remove them, "
            f"or say with [duplicates] how they are resolved."
        )
    refuse_unaccepted(existing, request, *refused)
    return existing.version, _text(services, existing, request, duplicates)


def _count_duplicates(services: Services, existing: ExistingTable, limit_bytes: int) -> tuple[str, int]:
    """The surplus rows of equal keys, as text with the price of the query, and their number; 0 if it reads too much."""
    sql = services.warehouse.render(
        DUPLICATES_SQL_FILE, names=existing_table_names(services, existing), table=services.feed.table.to_contract()
    )
    parameters = {"retention_day": ("DATE", existing.oldest.isoformat())}
    configuration = query_configuration(services, "preview", sql, parameters)
    size = services.warehouse.jobs.dry_run_bytes(configuration)
    if size > limit_bytes:
        return f"not counted, because the query would read {size_text(size)}", 0
    found = services.warehouse.jobs.select(configuration, max_rows=MAX_RANGE_DAYS).first_rows
    count = sum(int(row["surplus_rows"]) for row in found)
    named = ", ".join(f"{row['found_day']}: {row['surplus_rows']}" for row in found[:DATES_NAMED])
    more = f", and {len(found) - DATES_NAMED} more dates" if len(found) > DATES_NAMED else ""
    rows = f"[{count}] surplus rows of keys that occur more than once ({named}{more})" if count else "no key twice"
    return f"{rows}; the query for that read {price_text(size)}", count


def _text(services: Services, existing: ExistingTable, request: BootstrapRequest, duplicates: str) -> str:
    names, feed = services.names, services.feed
    effect = "It serves readers until it is replaced by" if existing.is_target else "It stays as it is; readers get"
    expired = f"{existing.expired_rows} rows before {existing.oldest} ({describe_partitions(existing.expired)})"
    resolution = {
        Duplicates.REFUSE: "duplicate keys end the run",
        Duplicates.KEEP_LATEST: f"of each key the row of the highest {feed.table.snapshot_id_column} stays",
    }[request.duplicates]
    lines = [
        f"**{feed.feed}: takes over {existing.name}**",
        "",
        f"- {existing.rows} rows in {len(existing.partitions)} dates, {existing.partitions[0].date} to "
        f"{existing.partitions[-1].date}. {effect} a clone of {names.staging_table} as {names.target_table}.",
        *_left_with_source(services, existing),
        f"- Left out, because the retention is {feed.table.retention_days} days: "
        f"{expired if existing.expired else 'none'}.",
        f"- Duplicates: {duplicates}; {resolution}. The Spark job reads every key, which scans nothing in BigQuery.",
        f"- Exported to state, written anew by Spark and loaded into {names.staging_table}: about "
        f"{size_text(existing.retained_size)}. Export and load are free.",
        f"- Comparison with staging, of all columns: {_comparison_text(services, existing, request)}.",
        f"- Update ids stay as they are. The next delivery changes no row whose update id is higher than its own. "
        f"Waiting now: {waiting_names(services, None)}.",
        "- Nobody may write the table from now on until the swap: a change ends the run, and target stays as it is.",
    ]
    return "\n".join(lines)


def _comparison_text(services: Services, existing: ExistingTable, request: BootstrapRequest) -> str:
    days = evenly_spaced([partition.date for partition in existing.partitions], request.compared_dates)
    size = comparison_bytes(
        services, existing_table_names(services, existing), services.feed.table.partition_column, days
    )
    return f"{len(days)} dates ({format_dates(days)}), by one query each, together about {price_text(size)}"


def _left_with_source(services: Services, existing: ExistingTable) -> list[str]:
    """Lines about policies and options that the existing table has and target will lack.

    No line if the existing table is target: then such policies and options prevent the bootstrap.
    """
    table = services.warehouse.with_dataset(existing.dataset).table(existing.table)
    if existing.is_target or table is None:
        return []
    lines = _policies_left(services, existing, table)
    undeclared = undeclared_options(services, table)
    if undeclared.level is not Level.PASS:
        how = undeclared.next_step.removesuffix(OR_REMOVE)
        lines.append(f"- Not taken over: {undeclared.found}. To have it on target: {how}.")
    return lines


def _policies_left(services: Services, existing: ExistingTable, table: TableMetadata) -> list[str]:
    from google.api_core.exceptions import Forbidden

    how = "and make them on staging (docs/security.md, Row access policies and policy tags)"
    lines = []
    try:
        policies = undeclared_row_policies(services, existing.dataset, table)
    except Forbidden as error:
        policies = []
        lines.append(
            f"- **Not known: whether {existing.name} has row access policies.** Readers of target would see the rows "
            f"that they hide. Let the account of Airflow list them, or declare them in table.policies.row_access "
            f"{how}. BigQuery says: {error.message}"
        )
    if policies:
        lines.append(
            f"- **Not taken over: row access policies [{', '.join(policies)}].** Readers of target would see the rows "
            f"that they hide. Declare them in table.policies.row_access {how}."
        )
    tags = undeclared_policy_tags(services, table)
    if tags:
        lines.append(
            f"- **Not taken over: policy tags of columns [{', '.join(f'{path}: {tag}' for path, tag in tags.items())}]."
            f"** Readers of target would see these columns. Declare them in table.policies.column_tags (nested columns "
            f"cannot be declared there) {how}."
        )
    return lines
