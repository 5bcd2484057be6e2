"""Executes one statement: counts the bytes that it reads, and commits all its changes in one step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery
from bigquery_standin.jobs import ddl_statements
from bigquery_standin.jobs.ddl_statements import refuse_null_elements
from bigquery_standin.jobs.destination_table import check_dispositions, resolve_settings, write_change
from bigquery_standin.jobs.dml_runner import DmlRunner, target_version
from bigquery_standin.jobs.job_configuration import TableLayout
from bigquery_standin.jobs.procedure_statements import create_procedure, drop_procedure
from bigquery_standin.jobs.row_policy_changes import run_row_policy_statement
from bigquery_standin.jobs.scanned_bytes import NOTHING_SCANNED, ScannedBytes, check_bytes_billed
from bigquery_standin.jobs.script_state import ScriptState, SqlEvaluator
from bigquery_standin.jobs.statement_outcome import CommitInfoOf, Outcome
from bigquery_standin.jobs.table_alterations import alter_table
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import (
    AlterColumn,
    AlterTableSetOptions,
    Assert,
    CreateClone,
    CreateProcedure,
    CreateRowPolicy,
    CreateTable,
    DropProcedure,
    DropRowPolicies,
    DropTable,
    Insert,
    Mutation,
    Query,
    Statement,
    TruncateTable,
    UndropSchema,
)
from bigquery_standin.storage.model import Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partition_rows import check_destination_partition, split_rows
from bigquery_standin.storage.segment_store import SegmentBatch
from bigquery_standin.storage.table_change import Change


@dataclass(frozen=True)
class ResultTable:
    """The table for the rows of a SELECT.

    `partition`: the only one to write, as in the decorator `table$partition`; None for the whole table. `expires_us`:
    when the stand-in deletes the table; None except for an anonymous table, which holds the rows of a query without a
    destination.
    """

    table: TableId
    partition: str | None = None
    create_disposition: str = "CREATE_IF_NEEDED"
    write_disposition: str = "WRITE_EMPTY"
    expires_us: int | None = None

    @property
    def is_anonymous(self) -> bool:
        return self.expires_us is not None


@dataclass
class StatementRunner:
    """Executes the statements of one script. `maximum_bytes_billed`: None for no limit."""

    state: ScriptState
    check_cancelled: Callable[[], None]
    maximum_bytes_billed: int | None = None

    def run(self, statement: Statement, commit_info_of: CommitInfoOf, result: ResultTable | None) -> Outcome:
        """Execute any statement but DECLARE, IF and CALL. If it raises StandInError, nothing has changed.

        `result`: where a SELECT writes its rows; None for other statements.
        """
        self.check_cancelled()
        state, started = self.state, time.perf_counter()
        match statement:
            case Mutation() | TruncateTable():
                runner = DmlRunner(state, self.check_cancelled, self.maximum_bytes_billed)
                return runner.run(statement, commit_info_of, started)
            case CreateRowPolicy() | DropRowPolicies():
                table = state.target(statement.table)
                return run_row_policy_statement(statement, state.catalog, state.session, table, commit_info_of)
            case DropProcedure():
                return drop_procedure(statement, state)
        with state.statement_evaluator() as evaluator:
            match statement:
                case Query():
                    tree = evaluator.without_views(statement.tree)
                    return self._query(tree, evaluator, commit_info_of, result, started)
                case Insert():
                    return self._insert(statement, evaluator, commit_info_of, started)
                case CreateTable():
                    return self._create(statement, evaluator, commit_info_of, started)
                case Assert():
                    return self._assert(statement, evaluator, started)
                case _:
                    return self._other_ddl(statement, evaluator, commit_info_of)

    def _other_ddl(self, statement: Statement, evaluator: SqlEvaluator, commit_info_of: CommitInfoOf) -> Outcome:
        match statement:
            case CreateProcedure():
                return create_procedure(statement, evaluator)
            case CreateClone():
                return ddl_statements.clone_table(statement, evaluator, commit_info_of, self.check_cancelled)
            case AlterColumn() | AlterTableSetOptions():
                return alter_table(statement, evaluator, commit_info_of)
            case DropTable():
                return ddl_statements.drop_table(statement, self.state, commit_info_of)
            case UndropSchema():
                return ddl_statements.undrop_schema(statement, evaluator)
        raise TypeError(f"[{type(statement).__name__}] is run by a ScriptRunner")

    def _query(
        self,
        tree: exp.Expression,
        evaluator: SqlEvaluator,
        commit_info_of: CommitInfoOf,
        result: ResultTable | None,
        started: float,
    ) -> Outcome:
        if result is None:
            raise InvalidQuery("A SELECT needs a destination for its rows")
        scanned = self._scan_within_limit(tree, evaluator)
        columns, rows = evaluator.query(tree)
        refuse_null_elements(columns, rows)
        self.check_cancelled()
        outcome = self._outcome_of_reading("SELECT", scanned, evaluator, started)
        outcome = replace(outcome, destination=result.table)
        with self.state.catalog.segments.batch() as batch:
            current = self.state.catalog.find(result.table)
            settings = self._result_settings(result, current, columns)
            if not result.is_anonymous:
                rows = ddl_statements.conform_query_rows(rows, settings.schema)
            segments = self._segments(rows, settings, batch, result)

            def build(latest: TableVersion | None, commit_us: int) -> Change:
                check_dispositions(
                    result.table, result.partition, latest, result.create_disposition, result.write_disposition
                )
                return write_change(
                    "query", settings, latest, segments, result.write_disposition, result.partition, commit_us
                )

            self.state.catalog.commit(result.table, build, commit_info_of(outcome))
        return outcome

    def _result_settings(
        self, result: ResultTable, current: TableVersion | None, columns: tuple[TableField, ...]
    ) -> TableSettings:
        if result.is_anonymous:
            return TableSettings(columns, expires_us=result.expires_us)
        self.state.check_location(result.table)
        check_dispositions(result.table, result.partition, current, result.create_disposition, result.write_disposition)
        replaces_schema = result.write_disposition == "WRITE_TRUNCATE" and result.partition is None
        existing = current.settings if current else None
        return resolve_settings(result.table, existing, columns, TableLayout(), replaces_schema)

    def _insert(
        self, statement: Insert, evaluator: SqlEvaluator, commit_info_of: CommitInfoOf, started: float
    ) -> Outcome:
        table, version, targets = insert_target(statement, evaluator)
        schema = version.settings.schema
        scanned = self._scan_within_limit(statement.source, evaluator)
        rows = evaluator.query_as(statement.source, targets)
        outcome = self._outcome_of_reading("INSERT", scanned, evaluator, started)
        outcome = replace(outcome, changed_rows={"inserted": rows.num_rows})
        with self.state.catalog.segments.batch() as batch:
            segments = self._segments(ddl_statements.conform_query_rows(rows, schema), version.settings, batch)

            def build(latest: TableVersion | None, commit_us: int) -> Change:
                if latest is None or latest.settings.schema != schema:
                    raise Invalid(f"Table {table} changed while the INSERT ran: run it again.")
                return write_change("insert", latest.settings, latest, segments, "WRITE_APPEND", None, commit_us)

            self.state.catalog.commit(table, build, commit_info_of(outcome))
        return outcome

    def _create(
        self, statement: CreateTable, evaluator: SqlEvaluator, commit_info_of: CommitInfoOf, started: float
    ) -> Outcome:
        table = self.state.target(statement.name)
        kind = ddl_statements.creation_kind(statement)
        current = self.state.catalog.find(table)
        operation = ddl_statements.table_operation(current, statement.replace, statement.if_not_exists, table)
        if operation == "SKIP":
            return Outcome(kind, ddl_operation=operation, ddl_table=table)
        scanned, rows = NOTHING_SCANNED, None
        columns: tuple[TableField, ...] = ()
        if statement.view is not None and statement.query is not None:
            columns = self.state.session.schema(evaluator.duckdb_sql(evaluator.without_views(statement.query)))
        elif statement.query is not None:
            scanned = self._scan_within_limit(statement.query, evaluator)
            if statement.columns:
                columns = statement.columns
                rows = evaluator.query_as(statement.query, columns)
            else:
                columns, rows = evaluator.query(statement.query)
        settings = ddl_statements.create_settings(statement, columns, evaluator)
        outcome = self._outcome_of_reading(kind, scanned, evaluator, started)
        outcome = replace(outcome, ddl_operation=operation, ddl_table=table)
        with self.state.catalog.segments.batch() as batch:
            segments: dict[str, list[Segment]] = {}
            if rows is not None:
                segments = self._segments(ddl_statements.conform_query_rows(rows, settings.schema), settings, batch)

            def build(latest: TableVersion | None, commit_us: int) -> Change:
                ddl_statements.table_operation(latest, statement.replace, if_not_exists=False, table=table)
                change = write_change("create", settings, None, segments, "WRITE_EMPTY", None, commit_us)
                return ddl_statements.create_change(table, latest, settings, dict(change.partitions))

            return ddl_statements.commit_creation(
                self.state.catalog, table, build, commit_info_of, outcome, statement.if_not_exists
            )

    def _assert(self, statement: Assert, evaluator: SqlEvaluator, started: float) -> Outcome:
        scanned = self._scan_within_limit(exp.select(statement.condition), evaluator)
        result = evaluator.value(statement.condition)
        if result.field.type != "BOOL":
            raise InvalidQuery(f"ASSERT expression must be of type BOOL, but is of type {result.field.sql_type()}")
        if result.value is not True:
            raise InvalidQuery("Assertion failed" if statement.message is None else statement.message)
        return self._outcome_of_reading("ASSERT", scanned, evaluator, started)

    def _scan_within_limit(self, tree: exp.Expression, evaluator: SqlEvaluator) -> ScannedBytes:
        scanned = evaluator.scanned_bytes(tree)
        check_bytes_billed(scanned, self.maximum_bytes_billed)
        return scanned

    @staticmethod
    def _outcome_of_reading(kind: str, scanned: ScannedBytes, evaluator: SqlEvaluator, started: float) -> Outcome:
        """The outcome, as far as it follows from what the statement has read, and from the time since `started`.

        `started`: the time.perf_counter() when the statement started.
        """
        slot_ms = max(1, int((time.perf_counter() - started) * 1000))
        return Outcome(kind, scanned.processed, scanned.billed, slot_ms, tuple(evaluator.reader.tables))

    @staticmethod
    def _segments(
        rows: pa.Table, settings: TableSettings, batch: SegmentBatch, result: ResultTable | None = None
    ) -> dict[str, list[Segment]]:
        """Writes rows as segments, and returns these by partition.

        Raises Invalid for rows outside the partition of `result`, if it has one.
        """
        segments: dict[str, list[Segment]] = {}
        for key, part in split_rows(rows, settings.partition_column):
            if result is not None:
                check_destination_partition(result.table, result.partition, key)
            segments.setdefault(key, []).append(batch.write(part))
        return segments


def insert_target(statement: Insert, evaluator: SqlEvaluator) -> tuple[TableId, TableVersion, tuple[TableField, ...]]:
    """The table of an INSERT, its version, and the columns that get values.

    Raises what `target_version` raises, and InvalidQuery for wrong columns.
    """
    table, version = target_version(statement.table, evaluator)
    names = statement.columns or tuple(column.name for column in version.settings.schema)
    targets = []
    for name in names:
        column = version.settings.column(name)
        if column is None:
            raise InvalidQuery(f"Column {name} is not present in table {table}")
        targets.append(column)
    if len({column.name for column in targets}) != len(targets):
        raise InvalidQuery(f"INSERT into {table} names a column twice: [{', '.join(names)}]")
    return table, version, tuple(targets)
