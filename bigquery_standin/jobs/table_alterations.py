"""Executes ALTER TABLE, and applies OPTIONS to a table's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bigquery_standin.bigquery_errors import InvalidQuery, NotFound
from bigquery_standin.clock import DAY_MS, from_datetime
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import AlterColumn, AlterTableSetOptions
from bigquery_standin.storage.model import TableId, TableSettings, TableVersion
from bigquery_standin.storage.table_change import Change
from bigquery_standin.storage.table_rules import check_settings, may_become


def alter_table(statement: AlterColumn | AlterTableSetOptions, run: StatementRun) -> Outcome:
    table = run.target(statement.name)
    change_settings: Callable[[TableSettings], TableSettings]
    if isinstance(statement, AlterColumn):
        change_settings = partial(_with_column, table, statement)
    else:
        options = evaluate_options(statement.options, "table", run.evaluator.python_value)
        change_settings = partial(with_options, options=options)
    if statement.if_exists and run.catalog.find(table) is None:
        return run.outcome("ALTER_TABLE", ddl_operation="SKIP", ddl_table=table)
    outcome = run.outcome("ALTER_TABLE", ddl_operation="ALTER", ddl_table=table)
    return run.commit(table, lambda current, _: _alter_change(table, current, change_settings), outcome)


def with_options(settings: TableSettings, options: Mapping[str, Any]) -> TableSettings:
    """The settings after OPTIONS(…). An option that is not written stays as it is; NULL removes an option."""
    changes: dict[str, Any] = {}
    for name, value in options.items():
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


def _with_column(table: TableId, statement: AlterColumn, settings: TableSettings) -> TableSettings:
    """The settings with another type of one column, as BigQuery's page "Data definition language" allows it."""
    column = settings.column(statement.column)
    if column is None:
        if statement.if_column_exists:
            return settings
        raise InvalidQuery(f"Column not found: {statement.column} in table {table}")
    if not may_become(column, replace(statement.new_type, name=column.name), widens=True):
        raise InvalidQuery(
            f"ALTER TABLE ALTER COLUMN SET DATA TYPE requires that the existing column type ({column.sql_type()}) is "
            f"assignable to the new type ({statement.new_type.sql_type()})"
        )
    changed = _with_type(column, statement.new_type)
    schema = tuple(changed if field is column else field for field in settings.schema)
    altered = settings.has_altered_types or changed.sql_type() != column.sql_type()
    return replace(settings, schema=schema, has_altered_types=altered)


def _with_type(column: TableField, new_type: TableField) -> TableField:
    fields = tuple(map(_with_type, column.fields, new_type.fields))
    return replace(column, type=new_type.type, parameters=new_type.parameters, fields=fields)


def _alter_change(
    table: TableId, current: TableVersion | None, change_settings: Callable[[TableSettings], TableSettings]
) -> Change:
    if current is None:
        raise NotFound(f"Not found: Table {table}")
    settings = change_settings(current.settings)
    check_settings(table, settings)
    return Change("options", settings, current.partitions, current.clone)
