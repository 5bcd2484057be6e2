"""Computes the statistics and the result schema that a dry run returns for a query."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from bigquery_standin.jobs import ddl_statements
from bigquery_standin.jobs.dml_changes import check_names_and_types
from bigquery_standin.jobs.dml_runner import maximum_scanned_bytes, mutable_version
from bigquery_standin.jobs.procedure_statements import create_procedure
from bigquery_standin.jobs.script_state import ScriptState, SqlEvaluator, check_result_names
from bigquery_standin.jobs.statement_outcome import Outcome, script_statistics
from bigquery_standin.jobs.statement_runner import insert_target
from bigquery_standin.sql import statements
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import Assert, CreateClone, CreateTable, Insert, Mutation, Query, Script


def dry_run_statistics(script: Script, state: ScriptState) -> dict[str, Any]:
    """The job statistics of a dry run.

    A script's bytes are known only after it has run, so their accuracy is UNKNOWN.
    """
    if script.is_script:
        statistics = script_statistics([])
        statistics["query"]["totalBytesProcessedAccuracy"] = "UNKNOWN"
        del statistics["numChildJobs"]
        return statistics
    statement = script.statements[0]
    with state.statement_evaluator() as evaluator:
        if isinstance(statement, Insert):
            _, _, columns = insert_target(statement, evaluator)
            evaluator.assignable_sql(statement.source, columns)
        if isinstance(statement, Query | Insert | Assert):
            kind, tree = _type_and_tree(statement)
            return _reading_statistics(kind, evaluator.without_views(tree), evaluator)
        if isinstance(statement, CreateTable):
            return _creation_statistics(statement, evaluator)
        if isinstance(statement, CreateClone):
            source, _ = ddl_statements.clone_source(statement, evaluator)
            return _statistics(
                Outcome("CREATE_TABLE", tables=(source,), ddl_operation=_ddl_operation(statement, state))
            )
        if isinstance(statement, Mutation):
            return _mutation_statistics(statement, evaluator)
        if isinstance(statement, statements.TruncateTable):
            table, _ = mutable_version(statement.table, evaluator)
            return _statistics(Outcome("TRUNCATE_TABLE", tables=(table,)))
        if isinstance(statement, statements.CreateProcedure):
            return _statistics(create_procedure(statement, evaluator, dry_run=True))
    kind = _OTHER_TYPES[type(statement)]
    # As when the statement is executed, UNDROP reports CREATE.
    operation = "CREATE" if isinstance(statement, statements.UndropSchema) else kind.partition("_")[0]
    return _statistics(Outcome(kind, ddl_operation=operation))


_OTHER_TYPES = {
    statements.AlterTableSetOptions: "ALTER_TABLE",
    statements.AlterColumn: "ALTER_TABLE",
    statements.DropTable: "DROP_TABLE",
    statements.DropProcedure: "DROP_PROCEDURE",
    statements.CreateRowPolicy: "CREATE_ROW_ACCESS_POLICY",
    statements.DropRowPolicies: "DROP_ROW_ACCESS_POLICY",
    statements.UndropSchema: "UNDROP_SCHEMA",
}


def _type_and_tree(statement: Query | Insert | Assert) -> tuple[str, exp.Expression]:
    if isinstance(statement, Query):
        return "SELECT", statement.tree
    if isinstance(statement, Insert):
        return "INSERT", statement.source
    return "ASSERT", exp.select(statement.condition)


def _creation_statistics(statement: CreateTable, evaluator: SqlEvaluator) -> dict[str, Any]:
    kind, operation = ddl_statements.creation_kind(statement), _ddl_operation(statement, evaluator.state)
    if statement.view is not None:
        return _statistics(Outcome(kind, ddl_operation=operation))
    if statement.query is None:
        ddl_statements.create_settings(statement, (), evaluator)
        return _statistics(Outcome(kind, ddl_operation=operation))
    columns = evaluator.state.session.schema(evaluator.duckdb_sql(statement.query))
    ddl_statements.create_settings(statement, columns, evaluator)
    return _reading_statistics(kind, statement.query, evaluator, operation)


def _ddl_operation(statement: CreateTable | CreateClone, state: ScriptState) -> str:
    table = state.defaults.table(statement.name)
    state.catalog.datasets.get(table.dataset_id)
    return ddl_statements.table_operation(state.catalog.find(table), statement.replace, statement.if_not_exists, table)


def _reading_statistics(
    kind: str, tree: exp.Expression, evaluator: SqlEvaluator, operation: str | None = None
) -> dict[str, Any]:
    scanned = evaluator.scanned_bytes(tree)
    columns = evaluator.state.session.schema(evaluator.duckdb_sql(tree))
    if kind != "INSERT":
        check_result_names(columns)
    outcome = Outcome(
        kind, scanned.processed, scanned.billed, tables=tuple(evaluator.reader.tables), ddl_operation=operation
    )
    return _statistics(outcome, columns)


def _mutation_statistics(statement: Mutation, evaluator: SqlEvaluator) -> dict[str, Any]:
    """The bytes are an upper bound, because it is known only after execution which partitions are rewritten."""
    table, version = mutable_version(statement.table, evaluator)
    scanned = maximum_scanned_bytes(statement, evaluator)
    check_names_and_types(statement, evaluator, table, version)
    kind = statement.kind
    outcome = Outcome(kind, scanned.processed, scanned.billed, tables=tuple(evaluator.reader.tables))
    statistics = _statistics(outcome)
    statistics["query"]["totalBytesProcessedAccuracy"] = "UPPER_BOUND"
    return statistics


def _statistics(outcome: Outcome, columns: tuple[TableField, ...] = ()) -> dict[str, Any]:
    statistics = outcome.statistics()
    statistics["query"]["totalBytesProcessedAccuracy"] = "PRECISE"
    if columns:
        statistics["query"]["schema"] = {"fields": [column.to_api() for column in columns]}
    return statistics
