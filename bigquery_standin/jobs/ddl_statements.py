"""Executes DDL: creates, clones, alters and drops tables, and creates and drops row access policies.

A policy's filter is never evaluated, because the stand-in refuses reads for which it would have to be
(`storage/access.py`). Sources, in BigQuery's documentation: "Use row-level security"; REST resource rowAccessPolicies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import Duplicate, Invalid, InvalidQuery
from bigquery_standin.jobs.query_statements import conform_query_rows
from bigquery_standin.jobs.scanned_bytes import NOTHING_SCANNED
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import (
    QUERY_TEXT,
    CreateClone,
    CreateRowPolicy,
    DropRowPolicies,
    clustering_of,
    declared_columns,
    options_of,
    partitioning_of,
    target_of,
)
from bigquery_standin.sql.type_parser import field_of
from bigquery_standin.storage.access import check_all_rows, check_columns
from bigquery_standin.storage.model import (
    CloneDefinition,
    Partition,
    RowPolicy,
    TableId,
    TableSettings,
    TableVersion,
)
from bigquery_standin.storage.streamed_rows import needs_runtime_merge
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.table_rules import changed_settings, check_clone, check_replacement


def create_table(tree: exp.Create, run: StatementRun) -> Outcome:
    """Creates a table, which may get the rows of a query, or a view."""
    table, kind, query = run.target(target_of(tree)), _creation_kind(tree), tree.expression
    may_exist, replaces = bool(tree.args.get("exists")), bool(tree.args.get("replace"))
    current = run.catalog.find(table)
    if current is not None and may_exist:
        return run.outcome(kind)
    _refuse_existing(table, current is not None, replaces)
    (columns, _), rows, scanned = declared_columns(tree), None, NOTHING_SCANNED
    if tree.kind == "VIEW":
        columns = run.columns(run.without_views(query))
    elif query is not None:
        scanned = run.scan(query)
        columns, rows = run.query(query)
    settings = _settings(tree, table, columns, run)
    outcome = run.outcome(kind, scanned, destination=None if rows is None else table)
    segments = {} if rows is None else run.write(conform_query_rows(rows, settings.schema), settings)
    if current is not None:
        _check_replacement(table, current, settings)
    commit_us = run.catalog.next_us(table)
    partitions = {key: Partition(tuple(written), commit_us) for key, written in segments.items()}
    return run.commit(table, Change(settings, partitions, commit_us, recreates=True), outcome)


def _creation_kind(tree: exp.Create) -> str:
    """The job's statement type."""
    if tree.kind == "VIEW":
        return "CREATE_VIEW"
    return "CREATE_TABLE" if tree.expression is None else "CREATE_TABLE_AS_SELECT"


def _settings(tree: exp.Create, table: TableId, columns: tuple[TableField, ...], run: StatementRun) -> TableSettings:
    """The settings of a new table. Raises Invalid or InvalidQuery for what does not fit together."""
    partition_column, partition_unit, of_type = partitioning_of(tree)
    _, primary_key = declared_columns(tree)
    changes = {
        "schema": columns,
        "partition_column": partition_column,
        "partition_unit": partition_unit,
        "clustering": clustering_of(tree),
        "primary_key": primary_key,
        "view": tree.meta.get(QUERY_TEXT),
    }
    changes |= evaluate_options(options_of(tree), "table", run.python_value)
    settings = changed_settings(table, None, changes)
    if settings.partition_type not in (None, of_type):
        raise InvalidQuery(
            f"PARTITION BY expression must be a DATE column, DATETIME_TRUNC(<datetime_column>, DAY/HOUR/MONTH/YEAR), "
            f"TIMESTAMP_TRUNC(<timestamp_column>, DAY/HOUR/MONTH/YEAR) or DATE_TRUNC(<date_column>, MONTH/YEAR): "
            f"column [{partition_column}] is {settings.partition_type}"
        )
    return settings


def _check_replacement(table: TableId, current: TableVersion, settings: TableSettings) -> None:
    if (current.settings.view is None) != (settings.view is None):
        raise Invalid(f"{table} is a {'table' if current.settings.view is None else 'view'}: drop it first.")
    check_replacement(table, current.settings, settings)


def clone_table(statement: CreateClone, run: StatementRun) -> Outcome:
    """Makes a clone with its source's rows, schema, row access policies, primary key and layout.

    Here a clone has none of its source's options. BigQuery does not document whether it copies the partition
    expiration, so callers can rely only on what they write in OPTIONS.
    """
    table = run.target(statement.name)
    current = run.catalog.find(table)
    _refuse_existing(table, current is not None, statement.replace)
    source, source_version = _clone_source(statement, run)
    outcome = run.outcome("CREATE_TABLE")
    options = evaluate_options(statement.options, "table", run.python_value)
    moment_us = None if statement.system_time is None else run.reader.moment_us(statement.system_time)
    run.state.check_cancelled()
    cloned = {name: getattr(source_version.settings, name) for name in _CLONED}
    settings = changed_settings(table, None, {**cloned, **options})
    check_clone(run.catalog, table, source, source_version.clone)
    if current is not None:
        check_replacement(table, current.settings, settings)
    commit_us = run.catalog.next_us(table)
    partitions = {key: Partition(old.segments, commit_us) for key, old in source_version.partitions.items()}
    clone = CloneDefinition(source, commit_us if moment_us is None else moment_us)
    return run.commit(table, Change(settings, partitions, commit_us, clone, recreates=True), outcome)


def _clone_source(statement: CreateClone, run: StatementRun) -> tuple[TableId, TableVersion]:
    """The table to clone, and the version of it.

    Raises AccessDenied unless the caller may read all its rows and columns, as for a copy, and Invalid if its rows are
    staler than its max_staleness allows.
    """
    catalog, caller = run.catalog, run.state.caller
    source, version = run.reader.version(statement.source, statement.system_time)
    is_stale = needs_runtime_merge(catalog.get(source), catalog.clock.now_us())
    if is_stale or run.reader.merges_changes(source):  # it lacks changes that a query would add
        raise Invalid(
            f"Table {source} cannot be cloned: it is active with change data capture, and its rows are more stale than "
            "its max_staleness allows. Wait until upsert_stream_apply_watermark has passed the last change, or set a "
            "higher max_staleness."
        )
    check_all_rows(caller, catalog, source, version, "CLONE")
    check_columns(caller, source, version)
    return source, version


# What a clone has of its source's settings.
_CLONED = (
    "schema",
    "partition_column",
    "partition_unit",
    "clustering",
    "row_policies",
    "primary_key",
    "has_altered_types",
)


def _refuse_existing(table: TableId, exists: bool, or_replace: bool) -> None:
    if exists and not or_replace:
        raise Duplicate(f"Already Exists: Table {table}")


def drop_table(tree: exp.Drop, run: StatementRun) -> Outcome:
    table = run.target(target_of(tree))
    if tree.args.get("exists") and run.catalog.find(table) is None:
        return run.outcome("DROP_TABLE")
    outcome = run.outcome("DROP_TABLE")
    run.catalog.drop(table, run.commit_info(outcome))
    return outcome


def alter_table(tree: exp.Alter, run: StatementRun) -> Outcome:
    """ALTER TABLE with SET OPTIONS or ALTER COLUMN … SET DATA TYPE."""
    table, (action,) = run.target(target_of(tree)), tree.args["actions"]
    changes: dict[str, Any] = {}
    if not isinstance(action, exp.AlterColumn):
        properties = action.expressions[0].expressions
        changes = evaluate_options(properties, "table", run.python_value)

    current = run.catalog.get(table)
    before = current.settings
    if isinstance(action, exp.AlterColumn):
        changes["schema"] = _retyped(table, before, field_of(action.args["dtype"], action.name))
    settings = changed_settings(table, before, changes, widens=True)
    change = Change(settings, current.partitions, run.catalog.next_us(table), current.clone)
    return run.commit(table, change, run.outcome("ALTER_TABLE"))


def _retyped(table: TableId, settings: TableSettings, new: TableField) -> tuple[TableField, ...]:
    """The columns, of which one has a new type. Raises InvalidQuery if there is no such column."""
    column = settings.column(new.name)
    if column is None:
        raise InvalidQuery(f"Column not found: {new.name} in table {table}")
    changed = _with_type(column, replace(new, name=column.name))
    return tuple(changed if field is column else field for field in settings.schema)


def _with_type(column: TableField, new: TableField) -> TableField:
    """`new`, with what a type does not say: description and policy tags of the column, and whether it is REQUIRED."""
    before = {child.name: child for child in column.fields}
    return replace(
        new,
        mode=column.mode if (column.mode, new.mode) == ("REQUIRED", "NULLABLE") else new.mode,
        fields=tuple(_with_type(before.get(child.name, child), child) for child in new.fields),
        description=column.description,
        policy_tags=column.policy_tags,
    )


def create_policy(statement: CreateRowPolicy, run: StatementRun) -> Outcome:
    table = run.target(statement.table)
    policies = run.catalog.get(table).settings.row_policies
    if any(policy.name == statement.name for policy in policies):
        raise Duplicate(f"Already Exists: Row access policy {statement.name}")
    added = RowPolicy(statement.name, statement.text, statement.grantees, run.catalog.next_us(table))
    return _set_policies(run, table, (*policies, added), "CREATE_ROW_ACCESS_POLICY")


def drop_policies(statement: DropRowPolicies, run: StatementRun) -> Outcome:
    return _set_policies(run, run.target(statement.table), (), "DROP_ROW_ACCESS_POLICY")


def _set_policies(run: StatementRun, table: TableId, policies: tuple[RowPolicy, ...], kind: str) -> Outcome:
    current = run.catalog.get(table)
    settings = replace(current.settings, row_policies=policies)
    change = Change(settings, current.partitions, run.catalog.next_us(table), current.clone)
    return run.commit(table, change, run.outcome(kind))
