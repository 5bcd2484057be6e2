"""Computes which rows an UPDATE, DELETE or MERGE changes in one version of its target. It writes nothing."""

from __future__ import annotations

from devstack.bigquery.jobs.dml_merge import MergeEvaluator
from devstack.bigquery.jobs.dml_target import DmlTarget
from devstack.bigquery.jobs.row_changes import RowChanges
from devstack.bigquery.jobs.script_state import SqlEvaluator
from devstack.bigquery.sql.statements import Delete, Merge, MutatingStatement, Update
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import TableId, TableVersion


def row_changes(
    statement: MutatingStatement, evaluator: SqlEvaluator, table: TableId, version: TableVersion
) -> RowChanges:
    """The rows that the statement changes.

    Raises InvalidQuery for errors that BigQuery finds while it runs the statement.
    """
    session, target = evaluator.state.session, DmlTarget(statement.alias, evaluator, table, version)
    match statement:
        case Delete():
            removed = session.materialize(_delete_sql(statement, evaluator, target))
            no_rows = arrow_schema(target.schema).empty_table()
            return RowChanges(removed, no_rows, {"deleted": target.count(removed)})
        case Update():
            ids_and_values = session.materialize(_update_sql(statement, evaluator, target))
            target.refuse_repeated_rows(ids_and_values, "TRUE")
            rows = target.updated_rows(statement.assignments, ids_and_values)
            return RowChanges(ids_and_values, rows, {"updated": rows.num_rows})
        case Merge():
            return MergeEvaluator(statement, evaluator, target).changes()


def check_names_and_types(
    statement: MutatingStatement, evaluator: SqlEvaluator, table: TableId, version: TableVersion
) -> None:
    """Check the names and types of a statement in a dry run, without running it."""
    target = DmlTarget(statement.alias, evaluator, table, version)
    match statement:
        case Delete():
            evaluator.state.session.schema(_delete_sql(statement, evaluator, target))
        case Update():
            evaluator.state.session.schema(_update_sql(statement, evaluator, target))
        case Merge():
            MergeEvaluator(statement, evaluator, target).check_names_and_types()


def _delete_sql(statement: Delete, evaluator: SqlEvaluator, target: DmlTarget) -> str:
    return (
        f"SELECT {target.row_id} FROM {target.relation} WHERE {evaluator.duckdb_sql(statement.where, target.columns)}"
    )


def _update_sql(statement: Update, evaluator: SqlEvaluator, target: DmlTarget) -> str:
    columns, relations = target.columns, target.relation
    if statement.source is not None:
        columns = columns | evaluator.columns_read(statement.source)
        relations += f", {evaluator.duckdb_sql(statement.source.args['from_']).removeprefix(' FROM ')}"
        relations += "".join(evaluator.duckdb_sql(join, columns) for join in statement.source.args.get("joins") or [])
    condition = evaluator.duckdb_sql(statement.where, columns)
    return target.values_sql(statement.assignments, columns, f"{relations} WHERE {condition}")
