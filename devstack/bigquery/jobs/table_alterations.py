"""Executes ALTER TABLE, and applies OPTIONS and primary keys to a table's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from devstack.bigquery.bigquery_errors import InvalidQuery, NotFound
from devstack.bigquery.clock import from_datetime
from devstack.bigquery.jobs.script_state import StatementSql
from devstack.bigquery.jobs.statement_outcome import CommitInfoOf, Outcome
from devstack.bigquery.sql.ddl_options import TableOptions, evaluate_options
from devstack.bigquery.sql.statements import AlterTablePrimaryKey, AlterTableSetOptions
from devstack.bigquery.storage.model import TableId, TableSettings, TableVersion
from devstack.bigquery.storage.table_change import Change
from devstack.bigquery.storage.table_rules import check_settings

DAY_MS = 86_400_000


def alter_table(
    statement: AlterTableSetOptions | AlterTablePrimaryKey, sql: StatementSql, commit_info: CommitInfoOf
) -> Outcome:
    """Executes ALTER TABLE. Raises StandInError, and has then changed nothing."""
    catalog, table = sql.state.catalog, sql.state.target(statement.name)
    changed: Callable[[TableSettings], TableSettings]
    if isinstance(statement, AlterTablePrimaryKey):
        changed = partial(_with_primary_key, table, statement)
    else:
        changed = partial(with_options, options=evaluate_options(statement.options, sql.python_value))
    if statement.if_exists and catalog.find(table) is None:
        return Outcome("ALTER_TABLE", ddl_operation="SKIP", ddl_table=table)
    outcome = Outcome("ALTER_TABLE", ddl_operation="ALTER", ddl_table=table)
    catalog.commit(table, lambda current, _: _alter_change(table, current, changed), commit_info(outcome))
    return outcome


def declared_name(settings: TableSettings, name: str | None) -> str | None:
    """The column's name in the spelling of its declaration, because upper and lower case do not differ in SQL."""
    column = settings.column(name) if name is not None else None
    return column.name if column else name


def declared_names(settings: TableSettings, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(declared_name(settings, name) or name for name in names)


def with_options(settings: TableSettings, options: TableOptions) -> TableSettings:
    """The settings after OPTIONS(…). An option that is not written stays as it is; NULL removes an option."""
    changes: dict[str, Any] = {}
    for name in options.named:
        value = getattr(options, name)
        if name == "labels":
            changes["labels"] = dict(value or ())
        elif name == "partition_expiration_days":
            changes["partition_expiration_ms"] = None if value is None else round(value * DAY_MS)
        elif name == "expiration_timestamp":
            changes["expires_us"] = None if value is None else from_datetime(value)
        elif name == "require_partition_filter":
            changes[name] = bool(value)
        else:  # description, friendly_name and max_staleness
            changes[name] = value
    return replace(settings, **changes)


def _with_primary_key(table: TableId, statement: AlterTablePrimaryKey, settings: TableSettings) -> TableSettings:
    if statement.columns and settings.primary_key:
        raise InvalidQuery(f"Already Exists: Primary key of table {table}")
    if not (statement.columns or settings.primary_key or statement.if_key_exists):
        raise InvalidQuery(f"Not found: Primary key of table {table}")
    return replace(settings, primary_key=declared_names(settings, statement.columns))


def _alter_change(
    table: TableId, current: TableVersion | None, changed: Callable[[TableSettings], TableSettings]
) -> Change:
    if current is None:
        raise NotFound(f"Not found: Table {table}")
    settings = changed(current.settings)
    check_settings(table, settings)
    return Change("options", settings, current.partitions, current.clone)
