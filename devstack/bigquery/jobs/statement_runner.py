"""Carries out one statement: what it reads is measured first, what it changes is one commit that names its job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from devstack.bigquery.errors import Invalid, InvalidQuery, NotFound
from devstack.bigquery.jobs import definitions
from devstack.bigquery.jobs.destination import check_dispositions, resolve_settings, written
from devstack.bigquery.jobs.dml_reading import Mutation
from devstack.bigquery.jobs.load_request import LayoutRequest
from devstack.bigquery.jobs.mutation_runner import MutationRunner
from devstack.bigquery.jobs.partition_rows import check_destination, split_rows
from devstack.bigquery.jobs.row_policies import run_row_policy_statement
from devstack.bigquery.jobs.scanned_bytes import NOTHING_SCANNED, ScannedBytes, check_bytes_billed
from devstack.bigquery.jobs.script_state import ScriptState, StatementSql
from devstack.bigquery.jobs.statement_outcome import Mark, Outcome
from devstack.bigquery.jobs.table_reader import check_location
from devstack.bigquery.sql.options import evaluate_options
from devstack.bigquery.sql.statements import (
    AlterTableSetOptions,
    Assert,
    CreateClone,
    CreateRowPolicy,
    CreateSchema,
    CreateTable,
    Delete,
    DropRowPolicy,
    DropSchema,
    DropTable,
    Insert,
    Merge,
    Query,
    TableName,
    TruncateTable,
    Update,
)
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.catalog import Change
from devstack.bigquery.storage.model import Segment, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.segments import Batch

Unmutating = (
    Assert | AlterTableSetOptions | CreateClone | CreateSchema | CreateTable | DropSchema | DropTable | Insert | Query
)
Action = Unmutating | Mutation | TruncateTable | CreateRowPolicy | DropRowPolicy


@dataclass(frozen=True)
class ResultTable:
    """Where a SELECT's rows go. An anonymous table ends by itself."""

    table: TableId
    partition: str | None = None
    create: str = "CREATE_IF_NEEDED"
    write: str = "WRITE_EMPTY"
    expires_us: int | None = None


@dataclass
class StatementRunner:
    state: ScriptState
    check_cancelled: Callable[[], None]
    maximum_bytes_billed: int | None = None

    def run(self, statement: Action, mark: Mark, result: ResultTable | None) -> Outcome:
        self.check_cancelled()
        started = time.perf_counter()
        if isinstance(statement, Update | Delete | Merge | TruncateTable):
            mutations = MutationRunner(self.state, self.check_cancelled, self.maximum_bytes_billed)
            return mutations.run(statement, mark, started)
        if isinstance(statement, CreateRowPolicy | DropRowPolicy):
            table = self._target(statement.table)
            return run_row_policy_statement(statement, self.state.catalog, self.state.session, table, mark)
        return self._run(statement, mark, result, started)

    def _run(self, statement: Unmutating, mark: Mark, result: ResultTable | None, started: float) -> Outcome:
        with self.state.reading() as sql:
            match statement:
                case Query(tree):
                    return self._query(tree, sql, mark, result, started)
                case Insert():
                    return self._insert(statement, sql, mark, started)
                case CreateTable():
                    return self._create(statement, sql, mark, started)
                case Assert(condition, message):
                    return self._assert(condition, message, sql, started)
                case CreateClone():
                    return self._clone(statement, sql, mark)
                case AlterTableSetOptions():
                    return self._alter(statement, sql, mark)
                case DropTable(name, if_exists):
                    return self._drop(name, if_exists, mark)
                case CreateSchema():
                    defaults = self.state.defaults
                    operation = definitions.create_schema(
                        self.state.catalog, statement, defaults.project, defaults.location, _values(sql)
                    )
                    return Outcome("CREATE_SCHEMA", ddl_operation=operation)
                case DropSchema():
                    return self._drop_schema(statement)

    # -- statements that read

    def _query(
        self, tree: exp.Expression, sql: StatementSql, mark: Mark, result: ResultTable | None, started: float
    ) -> Outcome:
        if result is None:
            raise InvalidQuery("A SELECT needs a destination for its rows")
        scanned = self._measured(tree, sql)
        columns, rows = sql.query(tree)
        self.check_cancelled()
        outcome = self._read_outcome("SELECT", scanned, sql, started)
        outcome = replace(outcome, destination=result.table)
        with self.state.catalog.segments.batch() as batch:
            current = self.state.catalog.find(result.table)
            settings = self._result_settings(result, current, columns)
            if result.expires_us is None:
                rows = definitions.conformed(rows, settings.schema)
            segments = self._segments(rows, settings, batch, result)

            def build(now: TableVersion | None, commit_us: int) -> Change:
                check_dispositions(result.table, result.partition, now, result.create, result.write)
                return written("query", settings, now, segments, result.write, result.partition, commit_us)

            self.state.catalog.commit(result.table, build, mark(outcome))
        return outcome

    def _result_settings(
        self, result: ResultTable, current: TableVersion | None, columns: tuple[TableField, ...]
    ) -> TableSettings:
        if result.expires_us is not None:
            return TableSettings(columns, expires_us=result.expires_us)
        self._check_location(result.table)
        check_dispositions(result.table, result.partition, current, result.create, result.write)
        replaces = result.write == "WRITE_TRUNCATE" and result.partition is None
        existing = current.settings if current else None
        return resolve_settings(result.table, existing, columns, LayoutRequest(), replaces)

    def _insert(self, statement: Insert, sql: StatementSql, mark: Mark, started: float) -> Outcome:
        table, version = sql.reader.version(statement.table, None)
        schema = version.settings.schema
        names = statement.columns or tuple(column.name for column in schema)
        targets = []
        for name in names:
            column = version.settings.column(name)
            if column is None:
                raise InvalidQuery(f"Column {name} is not present in table {table}")
            targets.append(column)
        if len({column.name for column in targets}) != len(targets):
            raise InvalidQuery(f"INSERT into {table} names a column twice: [{', '.join(names)}]")
        scanned = self._measured(statement.source, sql)
        rows = sql.query_as(statement.source, tuple(targets))
        outcome = self._read_outcome("INSERT", scanned, sql, started)
        outcome = replace(outcome, changed_rows={"inserted": rows.num_rows})
        with self.state.catalog.segments.batch() as batch:
            segments = self._segments(definitions.conformed(rows, schema), version.settings, batch, None)

            def build(now: TableVersion | None, commit_us: int) -> Change:
                if now is None or now.settings.schema != schema:
                    raise Invalid(f"Table {table} changed while the INSERT ran: run it again.")
                return written("insert", now.settings, now, segments, "WRITE_APPEND", None, commit_us)

            self.state.catalog.commit(table, build, mark(outcome))
        return outcome

    def _create(self, statement: CreateTable, sql: StatementSql, mark: Mark, started: float) -> Outcome:
        table = self._target(statement.name)
        kind = "CREATE_TABLE" if statement.query is None else "CREATE_TABLE_AS_SELECT"
        current = self.state.catalog.find(table)
        operation = definitions.operation(current, statement.replace, statement.if_not_exists, table)
        if operation == "SKIP":
            return Outcome(kind, ddl_operation=operation, ddl_table=table)
        scanned, rows = NOTHING_SCANNED, None
        columns: tuple[TableField, ...] = ()
        if statement.query is not None:
            scanned = self._measured(statement.query, sql)
            if statement.columns:
                columns = definitions.columns_of(statement.columns)
                rows = sql.query_as(statement.query, columns)
            else:
                columns, rows = sql.query(statement.query)
        settings = definitions.create_settings(table, statement, columns, _values(sql))
        outcome = self._read_outcome(kind, scanned, sql, started)
        outcome = replace(outcome, ddl_operation=operation, ddl_table=table)
        with self.state.catalog.segments.batch() as batch:
            new = {} if rows is None else self._segments(definitions.conformed(rows, settings.schema), settings, batch)

            def build(now: TableVersion | None, commit_us: int) -> Change:
                definitions.operation(now, statement.replace, False, table)
                change = written("create", settings, None, new, "WRITE_EMPTY", None, commit_us)
                return definitions.created(table, now, settings, dict(change.partitions))

            self.state.catalog.commit(table, build, mark(outcome))
        return outcome

    def _assert(self, condition: exp.Expression, message: str | None, sql: StatementSql, started: float) -> Outcome:
        scanned = self._measured(exp.select(condition), sql)
        found = sql.value(condition)
        if found.field.type != "BOOL":
            raise InvalidQuery(f"ASSERT expression must be of type BOOL, but is of type {found.field.sql_type()}")
        if found.value is not True:
            raise InvalidQuery(message if message is not None else "Assertion failed")
        return self._read_outcome("ASSERT", scanned, sql, started)

    # -- statements that change metadata

    def _clone(self, statement: CreateClone, sql: StatementSql, mark: Mark) -> Outcome:
        catalog, table = self.state.catalog, self._target(statement.name)
        operation = definitions.operation(catalog.find(table), statement.replace, statement.if_not_exists, table)
        source, source_version = sql.reader.version(statement.source, statement.system_time)
        outcome = Outcome("CREATE_TABLE", tables=(source,), ddl_operation=operation, ddl_table=table)
        if operation == "SKIP":
            return outcome
        options = evaluate_options(statement.options, _values(sql))
        moment = statement.system_time
        moment_us = None if moment is None else sql.reader.moment_us(moment)

        def build(now: TableVersion | None, commit_us: int) -> Change:
            definitions.operation(now, statement.replace, False, table)
            clone_us = commit_us if moment_us is None else moment_us
            return definitions.cloned(catalog, table, now, source, source_version, options, clone_us, commit_us)

        self.check_cancelled()
        catalog.commit(table, build, mark(outcome))
        return outcome

    def _alter(self, statement: AlterTableSetOptions, sql: StatementSql, mark: Mark) -> Outcome:
        table = self._target(statement.name)
        options = evaluate_options(statement.options, _values(sql))
        if statement.if_exists and self.state.catalog.find(table) is None:
            return Outcome("ALTER_TABLE", ddl_operation="SKIP", ddl_table=table)
        outcome = Outcome("ALTER_TABLE", ddl_operation="ALTER", ddl_table=table)
        self.state.catalog.commit(table, lambda now, _: definitions.altered(table, now, options), mark(outcome))
        return outcome

    def _drop(self, name: TableName, if_exists: bool, mark: Mark) -> Outcome:
        table = self._target(name)
        if if_exists and self.state.catalog.find(table) is None:
            return Outcome("DROP_TABLE", ddl_operation="SKIP", ddl_table=table)
        outcome = Outcome("DROP_TABLE", ddl_operation="DROP", ddl_table=table)
        self.state.catalog.drop(table, mark(outcome))
        return outcome

    def _drop_schema(self, statement: DropSchema) -> Outcome:
        dataset = definitions.schema_id(statement.name, self.state.defaults.project)
        if statement.if_exists and self.state.catalog.datasets.find(dataset) is None:
            return Outcome("DROP_SCHEMA", ddl_operation="SKIP")
        check_location(self.state.catalog, dataset, self.state.defaults.location, f"Dataset {dataset}")
        self.state.catalog.drop_dataset(dataset, statement.cascade)
        return Outcome("DROP_SCHEMA", ddl_operation="DROP")

    # -- helpers

    def _measured(self, tree: exp.Expression, sql: StatementSql) -> ScannedBytes:
        scanned = sql.measure(tree)
        check_bytes_billed(scanned, self.maximum_bytes_billed)
        return scanned

    @staticmethod
    def _read_outcome(kind: str, scanned: ScannedBytes, sql: StatementSql, started: float) -> Outcome:
        slot_ms = max(1, int((time.perf_counter() - started) * 1000))
        tables, versions = tuple(sql.reader.tables), sql.reader.versions
        return Outcome(kind, scanned.processed, scanned.billed, slot_ms, tables, versions=versions)

    def _target(self, name: TableName) -> TableId:
        table = self.state.defaults.table(name)
        self._check_location(table)
        return table

    def _check_location(self, table: TableId) -> None:
        dataset = table.dataset_id
        if self.state.catalog.datasets.find(dataset) is None:
            raise NotFound(f"Not found: Dataset {dataset}")
        check_location(self.state.catalog, dataset, self.state.defaults.location, f"Dataset {dataset}")

    @staticmethod
    def _segments(
        rows: pa.Table, settings: TableSettings, batch: Batch, result: ResultTable | None = None
    ) -> dict[str, list[Segment]]:
        segments: dict[str, list[Segment]] = {}
        for key, part in split_rows(rows, settings.partition_column):
            if result is not None:
                check_destination(result.table, result.partition, key)
            segments.setdefault(key, []).append(batch.write(part))
        return segments


def _values(sql: StatementSql) -> definitions.Evaluate:
    return lambda expression: sql.value(expression).value
