"""Executes a statement, or tries it in a dry run, by the one table of executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bigquery_standin.jobs import ddl_statements, procedure_statements, row_policies, table_alterations
from bigquery_standin.jobs.dml_commit import retried
from bigquery_standin.jobs.dml_runner import change_rows, truncate_table
from bigquery_standin.jobs.query_statements import assert_condition, insert_rows, select_rows
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.sql_evaluator import open_evaluator
from bigquery_standin.jobs.statement_run import CommitInfoOf, Outcome, ResultTable, StatementRun, script_statistics
from bigquery_standin.sql import statements
from bigquery_standin.sql.statements import Script, Statement

# Each executor returns the outcome. If it raises StandInError, nothing has changed. In a dry run it checks as much as
# it can, and changes nothing. ScriptRunner executes DECLARE, IF and CALL.
EXECUTORS: Mapping[type, Callable[[Any, StatementRun], Outcome]] = {
    statements.Query: select_rows,
    statements.Insert: insert_rows,
    statements.CreateTable: ddl_statements.create_table,
    statements.Assert: assert_condition,
    statements.Mutation: change_rows,
    statements.TruncateTable: truncate_table,
    statements.CreateClone: ddl_statements.clone_table,
    statements.DropTable: ddl_statements.drop_table,
    statements.UndropSchema: ddl_statements.undrop_schema,
    statements.AlterColumn: table_alterations.alter_table,
    statements.AlterTableSetOptions: table_alterations.alter_table,
    statements.CreateRowPolicy: row_policies.create_policy,
    statements.DropRowPolicies: row_policies.drop_policies,
    statements.CreateProcedure: procedure_statements.create_procedure,
    statements.DropProcedure: procedure_statements.drop_procedure,
}


@dataclass
class StatementRunner:
    """Executes the statements of one script. `maximum_bytes_billed`: None for no limit."""

    state: ScriptState
    check_cancelled: Callable[[], None]
    maximum_bytes_billed: int | None = None

    def run(self, statement: Statement, commit_info_of: CommitInfoOf | None, result: ResultTable | None) -> Outcome:
        """Execute a statement. `commit_info_of`: None for a dry run.

        A statement that finds its rows changed meanwhile runs again on the newer ones. Raises ConcurrentUpdate if other
        statements keep changing them.
        """
        self.check_cancelled()
        return retried(lambda: self._run_once(statement, commit_info_of, result), self.check_cancelled)

    def _run_once(
        self, statement: Statement, commit_info_of: CommitInfoOf | None, result: ResultTable | None
    ) -> Outcome:
        with open_evaluator(self.state) as evaluator:
            run = StatementRun(
                self.state, evaluator, self.check_cancelled, commit_info_of, self.maximum_bytes_billed, result
            )
            return EXECUTORS[type(statement)](statement, run)

    def dry_run(self, script: Script) -> dict[str, Any]:
        """The job statistics of a dry run. A script's bytes are known only after it has run."""
        if not script.is_script:
            return self.run(script.statements[0], None, None).statistics()
        statistics = script_statistics([])
        statistics["query"]["totalBytesProcessedAccuracy"] = "UNKNOWN"
        del statistics["numChildJobs"]
        return statistics
