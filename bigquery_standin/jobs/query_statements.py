"""Executes SELECT, INSERT and ASSERT."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.destination_table import check_dispositions, resolve_settings, write_change
from bigquery_standin.jobs.sql_evaluator import check_result_names
from bigquery_standin.jobs.statement_run import Outcome, ResultTable, StatementRun
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import Assert, Query, columns_of_insert, target_of
from bigquery_standin.storage.model import TableId, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import conform


def select_rows(query: Query, run: StatementRun) -> Outcome:
    tree = run.without_views(query)
    scanned = run.scan(tree)
    if run.is_dry:
        columns = run.columns(tree)
        check_result_names(columns)
        return run.outcome("SELECT", scanned, columns=columns)
    result = run.result
    if result is None:
        raise InvalidQuery("A SELECT needs a destination for its rows")
    columns, rows = run.query(tree)
    refuse_null_elements(columns, rows)
    run.state.check_cancelled()
    current = run.catalog.find(result.table)
    settings = _result_settings(run, result, current, columns)
    if not result.is_anonymous:
        rows = conform_query_rows(rows, settings.schema)
    segments, commit_us = run.write(rows, settings), run.catalog.next_us(result.table)
    change = write_change(settings, current, segments, result.write_disposition, None, commit_us)
    return run.commit(result.table, change, run.outcome("SELECT", scanned, destination=result.table))


def _result_settings(
    run: StatementRun, result: ResultTable, current: TableVersion | None, columns: tuple[TableField, ...]
) -> TableSettings:
    if result.is_anonymous:
        return TableSettings(columns, expires_us=result.expires_us)
    run.state.check_location(result.table.dataset_id)
    check_dispositions(result.table, None, current, result.create_disposition, result.write_disposition)
    replaces_schema = result.write_disposition == "WRITE_TRUNCATE"
    existing = current.settings if current else None
    return resolve_settings(result.table, existing, columns, replaces_schema)


def insert_rows(tree: exp.Insert, run: StatementRun) -> Outcome:
    table, version, targets = _insert_target(tree, run)
    scanned = run.scan(tree.expression)
    rows = run.query_as(tree.expression, targets)
    outcome = run.outcome("INSERT", scanned, changed_rows={"inserted": rows.num_rows})
    segments = run.write(conform_query_rows(rows, version.settings.schema), version.settings)
    commit_us = run.catalog.next_us(table)
    return run.commit(
        table, write_change(version.settings, version, segments, "WRITE_APPEND", None, commit_us), outcome
    )


def _insert_target(tree: exp.Insert, run: StatementRun) -> tuple[TableId, TableVersion, tuple[TableField, ...]]:
    """The table of an INSERT, its version, and the columns that get values.

    Raises what `dml_target` raises, and InvalidQuery for wrong columns.
    """
    table, version = run.dml_target(target_of(tree))
    names = columns_of_insert(tree) or tuple(column.name for column in version.settings.schema)
    targets = []
    for name in names:
        column = version.settings.column(name)
        if column is None:
            raise InvalidQuery(f"Column {name} is not present in table {table}")
        targets.append(column)
    if len({column.name for column in targets}) != len(targets):
        raise InvalidQuery(f"INSERT into {table} names a column twice: [{', '.join(names)}]")
    return table, version, tuple(targets)


def assert_condition(statement: Assert, run: StatementRun) -> Outcome:
    condition = exp.select(statement.condition)
    scanned = run.scan(condition)
    result = run.value(statement.condition)
    if result.field.type != "BOOL":
        raise InvalidQuery(f"ASSERT expression must be of type BOOL, but is of type {result.field.sql_type()}")
    if result.value is not True:
        raise InvalidQuery("Assertion failed" if statement.message is None else statement.message)
    return run.outcome("ASSERT", scanned)


def conform_query_rows(rows: pa.Table, schema: tuple[TableField, ...]) -> pa.Table:
    """A query's rows in a table's schema. Raises Invalid or InvalidQuery for a NULL where none may be."""
    conformed = conform(rows, schema)
    refuse_null_elements(schema, conformed)
    return conformed


def refuse_null_elements(columns: Sequence[TableField], rows: pa.Table) -> None:
    """Raises InvalidQuery for a NULL element in an array of the rows, in nested arrays too."""
    for column, values in zip(columns, rows.columns, strict=True):
        for chunk in values.chunks:
            _refuse_null_elements(column, chunk)


def _refuse_null_elements(column: TableField, values: pa.Array) -> None:
    if column.mode == "REPEATED":
        values = values.flatten()
        if values.null_count:
            raise InvalidQuery(f"Array cannot have a null element; error in writing field {column.name}")
    for number, child in enumerate(column.fields):
        _refuse_null_elements(child, values.field(number))
