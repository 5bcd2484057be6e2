"""Executes ALTER TABLE, and applies OPTIONS and primary keys to a table's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from devstack.bigquery.bigquery_errors import InvalidQuery, NotFound, NotImplementedConstruct
from devstack.bigquery.clock import from_datetime
from devstack.bigquery.jobs.script_state import StatementSql
from devstack.bigquery.jobs.statement_outcome import CommitInfoOf, Outcome
from devstack.bigquery.sql.ddl_options import TableOptions, evaluate_options
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.sql.statements import AlterColumn, AlterTablePrimaryKey, AlterTableSetOptions
from devstack.bigquery.sql.type_parser import field_of_column
from devstack.bigquery.storage.model import TableId, TableSettings, TableVersion
from devstack.bigquery.storage.table_change import Change
from devstack.bigquery.storage.table_rules import check_settings

DAY_MS = 86_400_000


def alter_table(
    statement: AlterColumn | AlterTableSetOptions | AlterTablePrimaryKey, sql: StatementSql, commit_info: CommitInfoOf
) -> Outcome:
    """Executes ALTER TABLE. Raises StandInError, and has then changed nothing."""
    catalog, table = sql.state.catalog, sql.state.target(statement.name)
    changed: Callable[[TableSettings], TableSettings]
    if isinstance(statement, AlterTablePrimaryKey):
        changed = partial(_with_primary_key, table, statement)
    elif isinstance(statement, AlterColumn):
        changed = partial(_with_column, table, statement)
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
        else:  # description, friendly_name, kms_key_name and max_staleness
            changes[name] = value
    return replace(settings, **changes)


def _with_primary_key(table: TableId, statement: AlterTablePrimaryKey, settings: TableSettings) -> TableSettings:
    if statement.columns and settings.primary_key:
        raise InvalidQuery(f"Already Exists: Primary key of table {table}")
    if not (statement.columns or settings.primary_key or statement.if_key_exists):
        raise InvalidQuery(f"Not found: Primary key of table {table}")
    return replace(settings, primary_key=declared_names(settings, statement.columns))


def _with_column(table: TableId, statement: AlterColumn, settings: TableSettings) -> TableSettings:
    """The settings with another type or mode of one column, as the page "Data definition language" allows it."""
    column = settings.column(statement.column)
    if column is None:
        if statement.if_column_exists:
            return settings
        raise InvalidQuery(f"Column not found: {statement.column} in table {table}")
    if statement.kind is None:
        if column.mode != "REQUIRED":
            raise InvalidQuery(
                f"ALTER TABLE ALTER COLUMN DROP NOT NULL: column {column.name} of {table} is not NOT NULL"
            )
        changed = replace(column, mode="NULLABLE")
    else:
        wanted = field_of_column(statement.kind)
        if not _is_less_restrictive(column, wanted):
            raise InvalidQuery(
                f"ALTER TABLE ALTER COLUMN SET DATA TYPE requires that the existing column type "
                f"({column.sql_type()}) is assignable to the new type ({wanted.sql_type()})"
            )
        changed = replace(column, type=wanted.type)
    schema = tuple(changed if field is column else field for field in settings.schema)
    altered = settings.has_altered_types or changed.type != column.type
    return replace(settings, schema=schema, has_altered_types=altered)


_WIDENINGS = {("INT64", "NUMERIC"), ("INT64", "FLOAT64"), ("NUMERIC", "FLOAT64")}


def _is_less_restrictive(column: TableField, wanted: TableField) -> bool:
    """Whether a scalar column may get this type. Changes inside STRUCT and ARRAY are refused as unsupported."""
    if "REPEATED" in (column.mode, wanted.mode) or column.fields or wanted.fields:
        raise NotImplementedConstruct("SET DATA TYPE of STRUCT and ARRAY")
    return column.type == wanted.type or (column.type, wanted.type) in _WIDENINGS


def _alter_change(
    table: TableId, current: TableVersion | None, changed: Callable[[TableSettings], TableSettings]
) -> Change:
    if current is None:
        raise NotFound(f"Not found: Table {table}")
    settings = changed(current.settings)
    check_settings(table, settings)
    return Change("options", settings, current.partitions, current.clone)
