"""Dry runs: what a query would read and return; nothing is run or changed."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs import definitions
from devstack.bigquery.jobs.dml_reading import Mutation
from devstack.bigquery.jobs.mutation import Mutator
from devstack.bigquery.jobs.mutation_runner import most_bytes, target_of
from devstack.bigquery.jobs.script_state import ScriptState, StatementSql
from devstack.bigquery.jobs.statement_outcome import Outcome, script_statistics
from devstack.bigquery.sql.statements import (
    AlterTableSetOptions,
    Assert,
    CreateClone,
    CreateRowPolicy,
    CreateSchema,
    CreateTable,
    Declare,
    Delete,
    DropRowPolicy,
    DropSchema,
    DropTable,
    If,
    Insert,
    Merge,
    Query,
    Script,
    SetVariable,
    TruncateTable,
    Update,
)
from devstack.bigquery.sql.types import TableField


def dry_run_statistics(script: Script, state: ScriptState) -> dict[str, Any]:
    """A script's bytes depend on its run, so only its text is checked and the accuracy says UNKNOWN."""
    if script.is_multi_statement:
        statistics = script_statistics([])
        statistics["query"]["totalBytesProcessedAccuracy"] = "UNKNOWN"
        del statistics["numChildJobs"]
        return statistics
    statement = script.statements[0]
    with state.reading() as sql:
        if isinstance(statement, Query | Insert | Assert):
            return _read(*_tree(statement), sql)
        if isinstance(statement, CreateTable) and statement.query is not None:
            return _read("CREATE_TABLE_AS_SELECT", statement.query, sql, _create(statement, state))
        if isinstance(statement, CreateTable):
            return _defined(Outcome("CREATE_TABLE", ddl_operation=_create(statement, state)))
        if isinstance(statement, CreateClone):
            source, _ = sql.reader.version(statement.source, statement.system_time)
            return _defined(Outcome("CREATE_TABLE", tables=(source,), ddl_operation=_create(statement, state)))
        if isinstance(statement, Update | Delete | Merge):
            return _mutation(statement, sql)
        if isinstance(statement, TruncateTable):
            table, _ = target_of(statement.table, sql)
            return _defined(Outcome("TRUNCATE_TABLE", tables=(table,)))
    if isinstance(statement, Declare | SetVariable | If):
        raise InvalidQuery("A script of one statement cannot be run as a plain query")
    kind = _OTHER_KINDS[type(statement)]
    return _defined(Outcome(kind, ddl_operation=kind.partition("_")[0]))


_OTHER_KINDS = {
    AlterTableSetOptions: "ALTER_TABLE",
    DropTable: "DROP_TABLE",
    CreateRowPolicy: "CREATE_ROW_ACCESS_POLICY",
    DropRowPolicy: "DROP_ROW_ACCESS_POLICY",
    CreateSchema: "CREATE_SCHEMA",
    DropSchema: "DROP_SCHEMA",
}


def _tree(statement: Query | Insert | Assert) -> tuple[str, exp.Expression]:
    if isinstance(statement, Query):
        return "SELECT", statement.tree
    if isinstance(statement, Insert):
        return "INSERT", statement.source
    return "ASSERT", exp.select(statement.condition)


def _create(statement: CreateTable | CreateClone, state: ScriptState) -> str:
    table = state.defaults.table(statement.name)
    state.catalog.datasets.get(table.dataset_id)
    return definitions.operation(state.catalog.find(table), statement.replace, statement.if_not_exists, table)


def _read(kind: str, tree: exp.Expression, sql: StatementSql, operation: str | None = None) -> dict[str, Any]:
    scanned = sql.measure(tree)
    columns = sql.state.session.schema(sql.duckdb(tree))
    outcome = Outcome(kind, scanned.processed, scanned.billed, tables=tuple(sql.reader.tables), ddl_operation=operation)
    return _defined(outcome, columns)


def _mutation(statement: Mutation, sql: StatementSql) -> dict[str, Any]:
    """Which partitions are updated shows only in the run: the bytes are an upper bound."""
    table, version = target_of(statement.table, sql)
    scanned = most_bytes(statement, sql)
    Mutator(statement, sql, table, version).check()
    kind = type(statement).__name__.upper()
    outcome = Outcome(kind, scanned.processed, scanned.billed, tables=tuple(sql.reader.tables))
    statistics = _defined(outcome)
    statistics["query"]["totalBytesProcessedAccuracy"] = "UPPER_BOUND"
    return statistics


def _defined(outcome: Outcome, columns: tuple[TableField, ...] = ()) -> dict[str, Any]:
    statistics = outcome.statistics()
    statistics["query"]["totalBytesProcessedAccuracy"] = "PRECISE"
    if columns:
        statistics["query"]["schema"] = {"fields": [column.to_api() for column in columns]}
    return statistics
