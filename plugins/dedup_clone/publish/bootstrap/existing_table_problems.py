"""Finds what prevents an existing table from becoming a feed's first generation. Each problem names its remedy."""

from __future__ import annotations

from datetime import date

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.checks.option_checks import check_undeclared_options
from dedup_clone.checks.partition_checks import partition_day
from dedup_clone.checks.table_checks import check_layout, check_table_expiration, labelled_generation
from dedup_clone.contract.table import Column, ColumnMode, float64_columns
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import Observation, TableMetadata
from dedup_clone.warehouse.table_options import POLICY_TAG, policy_tags


def feed_problems(services: Services, full_name: str, is_target: bool) -> list[str]:
    """Problems of the feed: it has published before, or one of its own tables is in the way.

    `full_name`: the existing table, as DATASET.TABLE. `is_target`: whether it is the feed's target.
    """
    feed, problems = services.feed, []
    generation = services.current.read().generation
    if generation is not None:
        problems.append(
            f"feed [{feed.feed}] publishes already (generation [{generation}]): a bootstrap is the first publish of a "
            f"feed; take the table over as a feed of another name"
        )
    if full_name == f"{services.names.dataset}.{feed.staging}":
        problems.append("it is the feed's own staging table: name the table that readers query")
    staging = services.warehouse.table(feed.staging)
    if staging is not None:
        results = (check_layout(staging, None, feed.table.to_contract()), check_table_expiration([staging]))
        problems += [
            f"[{feed.staging}] exists, and would not be published ({result.found}; expected {result.expected}): drop "
            f"it, and the bootstrap creates it"
            for result in results
            if result.level is Level.FAIL
        ]
    if not is_target and services.warehouse.table(feed.target) is not None:
        problems.append(
            f"target [{feed.target}] exists, and another table is to be taken over: leave [source_table] empty to take "
            f"over target itself, or rename target"
        )
    return problems


def table_problems(services: Services, table: TableMetadata, is_target: bool) -> list[str]:
    """Problems of the table: kind, location, layout, columns; for target also what would be lost by replacing it."""
    contract, location = services.feed.table.to_contract(), services.warehouse.location
    if table.kind != "TABLE":
        return [f"it is a [{table.kind}], expected a table: copy its rows into one, and name that"]
    problems = []
    if table.location.lower() != location.lower():
        problems.append(f"it lies in [{table.location}], expected [{location}]: copy its dataset there")
    layout = (table.partition_column, table.granularity)
    if layout != (contract.partition_column, "DAY"):
        problems.append(
            f"it is partitioned by [{table.partition_column or 'no column'}] ([{table.granularity or 'none'}]), "
            f"expected by [{contract.partition_column}] ([DAY]): copy its rows into a table of that layout, and name it"
        )
    if is_target and table.cluster_by != contract.cluster_by:
        problems.append(
            f"it is clustered by [{', '.join(table.cluster_by) or 'no column'}], expected by "
            f"[{', '.join(contract.cluster_by) or 'no column'}], because BigQuery cannot replace a table by one "
            f"of another layout: put the table's clustering into the feed's file"
        )
    problems += _column_problems(table.columns, contract.columns)
    if floats := float64_columns(table.columns):
        problems.append(
            f"an export of it, which the bootstrap needs, loses digits of FLOAT64 columns [{', '.join(floats)}]: let "
            f"the feed begin with a complete snapshot; if this table is target, rename it first"
        )
    if table.streaming_buffer is not None:
        problems.append("rows are in its streaming buffer: stop whoever streams; it is flushed within 90 minutes")
    labelled = labelled_generation(table) if is_target else None
    if labelled is not None:
        problems.append(
            f"its label says that it is generation [{labelled}] of this feed, but CURRENT names none: the records are "
            f"lost. Run `make recover FEED={services.feed.feed}`, which restores them from what is left, or prepares "
            f"the feed for this bootstrap (docs/runbook.md, lost records)"
        )
    return problems + ([*_lost_with_target(services, table), *_lost_options(services, table)] if is_target else [])


def _column_problems(existing: tuple[Column, ...], declared: tuple[Column, ...]) -> list[str]:
    existing_types = {column.name: _type(column) for column in existing}
    declared_types = {column.name: _type(column) for column in declared}
    problems = [
        f"column [{name}] is missing, expected {declared_type}"
        for name, declared_type in declared_types.items()
        if name not in existing_types
    ]
    problems += [
        f"column [{name}] is not in the feed's file: drop it, or declare it"
        for name in existing_types
        if name not in declared_types
    ]
    return problems + [
        f"column [{name}] is {existing_types[name]}, expected {declared_type}"
        for name, declared_type in declared_types.items()
        if existing_types.get(name, declared_type) != declared_type
    ]


def _type(column: Column) -> str:
    """The type without NULLABLE or REQUIRED: the rows show whether a column has NULLs."""
    inner = f"STRUCT<{', '.join(f'{f.name} {_type(f)}' for f in column.fields)}>" if column.fields else column.type
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


def undeclared_row_policies(services: Services, dataset: str, existing: TableMetadata) -> list[str]:
    """The row access policies of `existing`, a table of `dataset`, whose names the feed file does not declare.

    Metadata calls, free of charge. Raises Forbidden if this account is not allowed to list policies.
    """
    found = services.warehouse.with_dataset(dataset).policies(existing.name).row_access
    return sorted({*found} - {*services.feed.table.policies.row_access})


def undeclared_policy_tags(services: Services, existing: TableMetadata) -> dict[str, str]:
    """The policy tags of `existing` that the feed file does not declare, by column path.

    A feed file cannot declare tags of nested columns: a tag of such a column is returned if staging lacks it.
    """
    declared, staging = services.feed.table.policies.column_tags, services.warehouse.table(services.feed.staging)
    on_staging = policy_tags(staging.options) if staging else {}
    return {
        path: tag
        for path, tag in policy_tags(existing.options).items()
        if (on_staging if "." in path else declared).get(path) != tag
    }


def _lost_with_target(services: Services, target: TableMetadata) -> list[str]:
    """Problems: policies that target has and its replacement would lack, and materialized views that would break."""
    policies = undeclared_row_policies(services, services.names.dataset, target)
    tags = sorted(undeclared_policy_tags(services, target))
    problems = []
    if policies or tags:
        problems.append(
            f"it has row access policies {policies} and policy tags on columns {tags} that the feed's file does not "
            f"declare, and that its replacement would lack: declare them, and create staging with them"
        )
    views = services.warehouse.materialized_views_of(services.feed.target)
    if views:
        problems.append(f"materialized views {views} read it, and would break when it is replaced: drop them first")
    return problems


def undeclared_options(services: Services, existing: TableMetadata) -> CheckResult:
    """Check that target will have the labels, constraints, descriptions and type parameters of the existing table.

    Row access policies and policy tags are not options here: see `undeclared_row_policies`, `undeclared_policy_tags`.
    """
    staging, table = services.warehouse.table(services.feed.staging), services.feed.table
    return check_undeclared_options(
        target={name: value for name, value in existing.options.items() if not name.startswith(POLICY_TAG)},
        staging=staging.options if staging else {},
        declared={**swap_options(table), **staging_options(table)},
        last_set={},
    )


def _lost_options(services: Services, target: TableMetadata) -> list[str]:
    """Problems: options that target has and its replacement would lack, and a time at which BigQuery deletes target."""
    undeclared = undeclared_options(services, target)
    problems = []
    if undeclared.level is Level.FAIL:
        problems.append(f"its replacement would lack {undeclared.found}: {undeclared.next_step}")
    expiration = check_table_expiration([target])
    if expiration.level is Level.FAIL:
        problems.append(f"it would be deleted ({expiration.found}): {expiration.next_step}")
    return problems


def partition_problems(services: Services, observation: Observation, latest: date) -> list[str]:
    """Problems of the rows' dates: rows without a date, and rows with a date after `latest`."""
    column, problems = services.feed.table.partition_column, []
    special = [p for p in observation.partitions if partition_day(p) is None and p.rows]
    if special:
        problems.append(
            f"column [{column}]: {sum(p.rows for p in special)} rows are [NULL], before 1960, after 2159, or not in "
            f"their partition yet ({', '.join(p.partition_id for p in special)}), expected a date that has a partition "
            f"in every row: delete or correct them"
        )
    future = [
        p
        for p in sorted(observation.partitions, key=lambda p: p.partition_id)
        if (day := partition_day(p)) and day > latest and p.rows
    ]
    if future:
        problems.append(
            f"column [{column}]: {sum(p.rows for p in future)} rows have dates after [{latest}], up to "
            f"[{future[-1].partition_id}]: delete or correct them"
        )
    return problems
