"""What UPDATE, DELETE and MERGE change: which rows of the target go, and which rows come, found in one snapshot.

Rows of the target are known by their place in its version. Nothing is written here.
"""

from __future__ import annotations

from devstack.bigquery.jobs.changes import Changes
from devstack.bigquery.jobs.dml_reading import Mutation
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.merge import Merger
from devstack.bigquery.jobs.mutated_target import MutatedTarget
from devstack.bigquery.jobs.script_state import StatementSql
from devstack.bigquery.sql.statements import Delete, Merge, Update
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import TableId, TableVersion


class Mutator:
    """One statement on one version of its target."""

    def __init__(self, statement: Mutation, sql: StatementSql, table: TableId, version: TableVersion) -> None:
        self._statement = statement
        self._sql = sql
        self._session: DuckDbSession = sql.state.session
        self._target = MutatedTarget(statement.alias, sql, table, version)

    def changes(self) -> Changes:
        """Raises InvalidQuery where BigQuery refuses the statement while it runs."""
        match self._statement:
            case Delete():
                return self._delete(self._statement)
            case Update():
                return self._update(self._statement)
            case Merge():
                return Merger(self._statement, self._sql, self._target).changes()

    def check(self) -> None:
        """Only binds names and types, for a dry run."""
        match self._statement:
            case Delete():
                self._session.schema(self._delete_sql(self._statement))
            case Update():
                self._session.schema(self._update_sql(self._statement))
            case Merge():
                Merger(self._statement, self._sql, self._target).check()

    def _delete_sql(self, statement: Delete) -> str:
        condition = self._sql.duckdb(statement.where, self._target.columns)
        return f"SELECT {self._target.identity} FROM {self._target.relation} WHERE {condition}"

    def _delete(self, statement: Delete) -> Changes:
        removed = self._session.materialize(self._delete_sql(statement))
        return Changes(
            removed, arrow_schema(self._target.schema).empty_table(), {"deleted": self._target.count(removed)}
        )

    def _update_sql(self, statement: Update) -> str:
        columns, sources = self._target.columns, self._target.relation
        if statement.source is not None:
            columns = columns | self._sql.columns_read(statement.source)
            sources += f", {self._sql.duckdb(statement.source.args['from_']).removeprefix(' FROM ')}"
            sources += "".join(self._sql.duckdb(join, columns) for join in statement.source.args.get("joins") or [])
        condition = self._sql.duckdb(statement.where, columns)
        return self._target.values_sql(statement.assignments, columns, f"{sources} WHERE {condition}")

    def _update(self, statement: Update) -> Changes:
        values = self._session.materialize(self._update_sql(statement))
        self._target.refuse_repeated_rows(values, "TRUE")
        rows = self._target.updated_rows(statement.assignments, values)
        return Changes(values, rows, {"updated": rows.num_rows})
