"""Runs a script. Variables and branches are evaluated here; every other statement runs as a child job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, StandInError
from bigquery_standin.jobs.dml_queue import DmlQueue
from bigquery_standin.jobs.job_runner import JobContext, failed_inside
from bigquery_standin.jobs.job_store import DONE, PENDING, RUNNING, JobRecord, error_proto
from bigquery_standin.jobs.procedure_statements import bind_call
from bigquery_standin.jobs.script_state import DmlStatement, ScriptState
from bigquery_standin.jobs.spark_submit import SparkSubmit
from bigquery_standin.jobs.sql_evaluator import open_evaluator
from bigquery_standin.jobs.statement_run import CommitInfoOf, Outcome, ResultTable, script_statistics
from bigquery_standin.jobs.statement_runner import StatementRunner
from bigquery_standin.sql.field_types import QueryValue, TableField
from bigquery_standin.sql.statements import Call, Declare, If, Mutation, Query, Statement
from bigquery_standin.storage.model import CommitInfo

AnonymousTable = Callable[[JobRecord], ResultTable]


@dataclass
class ScriptRunner:
    """Runs the statements of one script.

    `anonymous_table`: makes the hidden table for the rows of a child job. `outcomes`: those of the child jobs that have
    succeeded, which are also counted in the statistics of `context`.
    """

    context: JobContext
    state: ScriptState
    runner: StatementRunner
    anonymous_table: AnonymousTable
    dml_queue: DmlQueue
    spark: SparkSubmit
    outcomes: list[Outcome] = field(default_factory=list)

    def run_block(self, statements: Sequence[Statement], ends_script: bool) -> None:
        """Run the statements one after the other. `ends_script`: whether no statement of the script follows them."""
        for position, statement in enumerate(statements):
            self.context.check_cancelled()
            is_last = ends_script and position == len(statements) - 1
            match statement:
                case Declare():
                    self._declare(statement)
                case If():
                    self.run_block(self._branch(statement), is_last)
                case _:
                    self._run_child(statement, is_last)

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
        for condition, statements in statement.branches:
            result = self._value(condition)
            if result.field.type != "BOOL":
                raise InvalidQuery(f"IF condition must be of type BOOL, but is of type {result.field.sql_type()}")
            if result.value is True:
                return statements
        return statement.otherwise

    def _value(self, expression: exp.Expression) -> QueryValue:
        with open_evaluator(self.state) as evaluator:
            return evaluator.value(expression)

    def _run_child(self, statement: Statement, is_last: bool) -> None:
        parent, now_us = self.context.record, self.context.clock.now_us()
        number, is_dml = len(self.outcomes), isinstance(statement, DmlStatement)
        query = _child_query(parent)
        if isinstance(statement, DmlStatement):
            query["destinationTable"] = self.state.defaults.table(statement.table).to_api()
        child = JobRecord(
            project=parent.project,
            location=parent.location,
            job_id=f"script_job_{parent.job_id}_{number}"[-200:],
            configuration={"jobType": "QUERY", "query": query},
            created_us=now_us,
            started_us=None if is_dml else now_us,
            state=PENDING if is_dml else RUNNING,
            parent_job_id=parent.job_id,
            user=parent.user,
        )
        self.context.store.add(child)
        try:
            result = self.anonymous_table(child) if isinstance(statement, Query) else None
            with self._admission(statement):
                if is_dml:
                    child = self.context.store.save(
                        replace(child, state=RUNNING, started_us=self.context.clock.now_us())
                    )
                if isinstance(statement, Call):
                    outcome = self._call(statement, child)
                else:
                    outcome = self.runner.run(statement, self._commit_info(child, is_last), result)
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
        with open_evaluator(self.state) as evaluator:
            procedure, arguments = bind_call(statement, evaluator)
        self.spark.run(procedure, arguments, child.job_id, self.context)
        slot_ms = max(1, int((time.perf_counter() - started) * 1000))
        spark_job = {"sparkJobId": child.job_id, "sparkJobLocation": child.location}
        return Outcome("CALL", slot_ms=slot_ms, spark_job=spark_job)

    def _admission(self, statement: Statement) -> AbstractContextManager[None]:
        if isinstance(statement, Mutation):
            return self.dml_queue.admit(self.state.defaults.table(statement.table), self.context.stop)
        return nullcontext()

    def _end(self, child: JobRecord) -> None:
        self.context.store.save(replace(child, state=DONE, ended_us=self.context.clock.now_us()))

    def _commit_info(self, child: JobRecord, is_last: bool) -> CommitInfoOf:
        def commit_info(outcome: Outcome) -> CommitInfo:
            parent_statistics = script_statistics([*self.outcomes, outcome]) if is_last else None
            return CommitInfo(child.key, outcome.statistics(), self.context.record.key, parent_statistics)

        return commit_info


def _child_query(parent: JobRecord) -> dict[str, object]:
    """A child's query is the whole script, because the parser does not keep the text of single statements."""
    query = parent.configuration["query"]
    return {key: query[key] for key in ("query", "useLegacySql", "defaultDataset") if key in query}
