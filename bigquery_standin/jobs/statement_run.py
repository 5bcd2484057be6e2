"""What the executors of all statements share: the tables and values of the statement, its limits and its commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.destination_table import NewSegments
from bigquery_standin.jobs.scanned_bytes import NOTHING_SCANNED, ScannedBytes, check_bytes_billed
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator
from bigquery_standin.jobs.statement_outcome import CommitInfoOf, Outcome
from bigquery_standin.jobs.table_reader import is_information_schema_view
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import TableName
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TableId, TableSettings, TableVersion
from bigquery_standin.storage.partition_rows import check_destination_partition, split_rows
from bigquery_standin.storage.protection import check_all_rows
from bigquery_standin.storage.table_change import BuildChange, Change

BuildWithRows = Callable[[NewSegments, TableVersion | None, int], Change]  # as BuildChange, from the new rows


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


@dataclass(frozen=True)
class StatementRun:
    """One run of a statement.

    `commit_info_of`: None in a dry run, which commits nothing. `maximum_bytes_billed`: None for no limit. `result`:
    where a SELECT writes its rows; None for other statements, and in a dry run. `started`: the time.perf_counter() when
    the statement started.
    """

    state: ScriptState
    evaluator: SqlEvaluator
    check_cancelled: Callable[[], None]
    commit_info_of: CommitInfoOf | None = None
    maximum_bytes_billed: int | None = None
    result: ResultTable | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def is_dry(self) -> bool:
        return self.commit_info_of is None

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog

    def target(self, name: TableName) -> TableId:
        """A table that the statement creates or changes. Raises NotFound as `ScriptState.check_location` does."""
        table = self.state.defaults.table(name)
        self.state.check_location(table.dataset_id)
        return table

    def dml_target(self, name: TableName) -> tuple[TableId, TableVersion]:
        """The table that a DML statement changes, and the version of it that the statement reads.

        Raises NotFound if there is no such table, InvalidQuery for an external table or a view, and AccessDenied if the
        caller may not read all rows.
        """
        reader = self.evaluator.reader
        if reader.external(name) is not None:
            raise InvalidQuery(f"Table {name.table} is an external table: DML cannot change it")
        if is_information_schema_view(name):
            raise InvalidQuery(f"{name.table} is a view: DML cannot change it")
        table, version = reader.version(name, None)
        check_all_rows(self.state.caller, self.catalog, table, version, "DML")
        return table, version

    def scan(self, tree: exp.Expression) -> ScannedBytes:
        """What the query reads. Raises StandInError if that is too much."""
        scanned = self.evaluator.scanned_bytes(tree)
        check_bytes_billed(scanned, self.maximum_bytes_billed)
        return scanned

    def columns(self, tree: exp.Expression) -> tuple[TableField, ...]:
        """The columns of a query, which is not run."""
        return self.state.session.schema(self.evaluator.duckdb_sql(tree))

    def outcome(self, kind: str, scanned: ScannedBytes = NOTHING_SCANNED, **more: Any) -> Outcome:
        """The outcome of a statement of this kind that has read `scanned`. `more`: further fields of the outcome."""
        if self.is_dry:
            more = {"accuracy": "PRECISE", **more}
        else:
            more["slot_ms"] = max(1, int((time.perf_counter() - self.started) * 1000))
        tables = tuple(self.evaluator.reader.tables)
        return Outcome(kind, scanned.processed, scanned.billed, tables=tables, **more)

    def commit(self, table: TableId, build: BuildChange, outcome: Outcome) -> Outcome:
        """Commit a change of the table, except in a dry run, and return the outcome."""
        if self.commit_info_of is not None:
            self.catalog.commit(table, build, self.commit_info_of(outcome))
        return outcome

    def commit_rows(
        self,
        table: TableId,
        rows: pa.Table,
        settings: TableSettings,
        build: BuildWithRows,
        outcome: Outcome,
        partition: str | None = None,
    ) -> Outcome:
        """Write rows as segments, and commit the change that `build` makes with them.

        Raises Invalid for rows outside of `partition`; None stands for the whole table.
        """
        with self.catalog.segments.batch() as batch:
            segments = {}
            for key, part in split_rows(rows, settings.partition_column):
                check_destination_partition(table, partition, key)
                segments[key] = [batch.write(part)]
            return self.commit(table, partial(build, segments), outcome)
