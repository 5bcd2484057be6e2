"""Runs statements, by the one table of executors, and scripts.

Variables and branches of a script are evaluated here; every other statement of it runs as a child job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct, StandInError
from bigquery_standin.jobs import ddl_statements
from bigquery_standin.jobs.dml_queue import DmlQueue
from bigquery_standin.jobs.dml_statements import change_rows, truncate_table
from bigquery_standin.jobs.job_runner import JobContext, failed_inside
from bigquery_standin.jobs.job_store import DONE, RUNNING, JobRecord, error_proto
from bigquery_standin.jobs.query_statements import assert_condition, insert_rows, select_rows
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.spark_procedures import SparkSubmit, bind_call, create_procedure
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator
from bigquery_standin.jobs.statement_run import Outcome, ResultTable, StatementRun, script_statistics
from bigquery_standin.sql import statements
from bigquery_standin.sql.field_types import QueryValue, TableField
from bigquery_standin.sql.statements import (
    Call,
    Declare,
    DmlStatement,
    If,
    Mutation,
    Query,
    Script,
    Statement,
    changed_table,
    target_of,
)

AnonymousTable = Callable[[JobRecord], ResultTable]


@dataclass
class ScriptRunner:
    """Runs the statements of one script.

    `anonymous_table`: makes the hidden table for the rows of a child job. `outcomes`: those of the child jobs that have
    succeeded, which are also counted in the statistics of `context`.
    """

    context: JobContext
    state: ScriptState
    anonymous_table: AnonymousTable
    dml_queue: DmlQueue
    spark: SparkSubmit
    outcomes: list[Outcome] = field(default_factory=list)

    def run_block(self, statements: Sequence[Statement]) -> None:
        """Run the statements one after the other."""
        for statement in statements:
            self.context.check_cancelled()
            match statement:
                case Declare():
                    self._declare(statement)
                case If():
                    self.run_block(self._branch(statement))
                case _:
                    self._run_child(statement)

    def _declare(self, statement: Declare) -> None:
        for name in statement.names:
            if name.lower() in self.state.variables:
                raise InvalidQuery(f"Variable '{name}' redeclaration: declare each one once")
            self.state.variables[name.lower()] = self._typed(statement.type, statement.default)

    def _typed(self, column: TableField, expression: exp.Expression | None) -> QueryValue:
        """The value of the expression cast to the type; NULL without an expression."""
        if expression is None:
            return QueryValue(column, None)
        result = self._value(expression)
        if result.field.sql_type() == column.sql_type() or result.value is None:
            return QueryValue(column, result.value)
        cast = exp.cast(expression.copy(), column.sql_type(), dialect="bigquery")
        return QueryValue(column, self._value(cast).value)

    def _branch(self, statement: If) -> Sequence[Statement]:
        result = self._value(statement.condition)
        if result.field.type != "BOOL":
            raise InvalidQuery(f"IF condition must be of type BOOL, but is of type {result.field.sql_type()}")
        return statement.then if result.value is True else statement.otherwise

    def _value(self, expression: exp.Expression) -> QueryValue:
        return SqlEvaluator(self.state).value(expression)

    def _run_child(self, statement: Statement) -> None:
        parent = self.context.record
        query = _child_query(parent)
        if isinstance(statement, DmlStatement):
            query["destinationTable"] = self.state.record.table(target_of(statement)).to_api()
        child = JobRecord(
            project=parent.project,
            location=parent.location,
            job_id=f"script_job_{parent.job_id}_{len(self.outcomes)}"[-200:],
            configuration={"jobType": "QUERY", "query": query},
            created_us=self.context.clock.now_us(),
            parent_job_id=parent.job_id,
            user=parent.user,
        )
        self.context.store.add(child)
        try:
            result = self.anonymous_table(child) if isinstance(statement, Query) else None
            with self.dml_queue.admit(statement, child, self.context.stop):
                child = self.context.store.save(replace(child, state=RUNNING, started_us=self.context.clock.now_us()))
                if isinstance(statement, Call):
                    outcome = self._call(statement, child)
                else:
                    outcome = run_statement(statement, self.state, child.key, result)
        except Exception as error:
            failure = error if isinstance(error, StandInError) else failed_inside(child.key, error)
            self._end(replace(child, error=error_proto(failure)))
            raise
        self.outcomes.append(outcome)
        child = child.with_destination(outcome.destination)
        self._end(replace(child, statistics=outcome.statistics()))
        self.context.statistics = script_statistics(self.outcomes)

    def _call(self, statement: Call, child: JobRecord) -> Outcome:
        started = time.perf_counter()
        procedure, arguments = bind_call(statement, SqlEvaluator(self.state))
        self.spark.run(procedure, arguments, child.job_id, self.context)
        return Outcome("CALL", slot_ms=max(1, int((time.perf_counter() - started) * 1000)))

    def _end(self, child: JobRecord) -> None:
        self.context.store.save(replace(child, state=DONE, ended_us=self.context.clock.now_us()))


def _child_query(parent: JobRecord) -> dict[str, object]:
    """A child's query is the whole script, because the parser does not keep the text of single statements."""
    query = parent.configuration["query"]
    return {key: query[key] for key in ("query", "useLegacySql") if key in query}


# Each executor returns the outcome. If it raises StandInError, nothing has changed. In a dry run it checks as much as
# it can, and changes nothing. ScriptRunner executes DECLARE, IF and CALL.
EXECUTORS: Mapping[type, Callable[[Any, StatementRun], Outcome]] = {
    **dict.fromkeys((exp.Select, exp.Union, exp.Subquery), select_rows),
    **dict.fromkeys((exp.Update, exp.Delete, exp.Merge), change_rows),
    exp.Insert: insert_rows,
    exp.TruncateTable: truncate_table,
    exp.Create: ddl_statements.create_table,
    exp.Alter: ddl_statements.alter_table,
    exp.Drop: ddl_statements.drop_table,
    statements.Assert: assert_condition,
    statements.CreateClone: ddl_statements.clone_table,
    statements.CreateRowPolicy: ddl_statements.create_policy,
    statements.DropRowPolicies: ddl_statements.drop_policies,
    statements.CreateProcedure: create_procedure,
}


def run_statement(statement: Statement, state: ScriptState, job_key: str | None, result: ResultTable | None) -> Outcome:
    """Execute a statement, as the only writer of the table that it changes. The arguments: see StatementRun."""
    name = changed_table(statement)
    table = result.table if result else None if name is None else state.record.table(name)
    with nullcontext() if table is None else state.catalog.writing(table, state.check_cancelled):
        state.check_cancelled()
        return EXECUTORS[type(statement)](statement, StatementRun(state, job_key, result))


def dry_run(script: Script, state: ScriptState) -> dict[str, Any]:
    """The job statistics of a dry run. A script's bytes are known only after it has run."""
    if not script.is_script:
        statement = script.statements[0]
        if not isinstance(statement, Query | Mutation):
            raise NotImplementedConstruct("dry run of other statements than SELECT, UPDATE, DELETE and MERGE")
        return run_statement(statement, state, None, None).statistics()
    statistics = script_statistics([])
    del statistics["numChildJobs"]
    return statistics
