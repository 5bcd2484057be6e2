"""What the executors of all statements share: the statement's tables and values, limits, commit and outcome."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.destination_table import NewSegments
from bigquery_standin.jobs.scanned_bytes import NOTHING_SCANNED, ScannedBytes, check_bytes_billed
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator
from bigquery_standin.jobs.table_reader import is_information_schema_view
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.type_parser import TableName
from bigquery_standin.storage.access import check_all_rows
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import CommitInfo, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.table_history import Change


@dataclass(frozen=True)
class Outcome:
    """What one statement has done. Fields that do not apply to the statement keep their defaults."""

    statement_type: str
    bytes_processed: int = 0
    bytes_billed: int = 0
    slot_ms: int = 0  # here the elapsed time, because the stand-in has no slots
    changed_rows: Mapping[str, int] | None = None  # of DML: how many were `inserted`, `updated`, `deleted`
    destination: TableId | None = None  # of a SELECT, and of CREATE TABLE AS SELECT: the table with its rows
    columns: tuple[TableField, ...] = ()  # of a query's result, in a dry run

    def statistics(self) -> dict[str, Any]:
        query: dict[str, Any] = {
            "statementType": self.statement_type,
            "totalBytesProcessed": str(self.bytes_processed),
            "totalBytesBilled": str(self.bytes_billed),
            "totalSlotMs": str(self.slot_ms),
            "cacheHit": False,
            "billingTier": 1,
        }
        optional = {
            "numDmlAffectedRows": None if self.changed_rows is None else str(sum(self.changed_rows.values())),
            "dmlStats": self.changed_rows and _row_counts(self.changed_rows),
            "schema": {"fields": [column.to_api() for column in self.columns]} if self.columns else None,
        }
        query |= {name: value for name, value in optional.items() if value is not None}
        return _job_statistics(self.bytes_processed, self.slot_ms, query)


def script_statistics(children: Iterable[Outcome]) -> dict[str, Any]:
    """The statistics of a script: sums over its child jobs."""
    outcomes = list(children)
    processed = sum(child.bytes_processed for child in outcomes)
    slot_ms = sum(child.slot_ms for child in outcomes)
    query = {
        "statementType": "SCRIPT",
        "totalBytesProcessed": str(processed),
        "totalBytesBilled": str(sum(child.bytes_billed for child in outcomes)),
        "totalSlotMs": str(slot_ms),
        "cacheHit": False,
    }
    return _job_statistics(processed, slot_ms, query) | {"numChildJobs": str(len(outcomes))}


def _job_statistics(processed: int, slot_ms: int, query: dict[str, Any]) -> dict[str, Any]:
    return {"totalBytesProcessed": str(processed), "totalSlotMs": str(slot_ms), "query": query}


def _row_counts(changed_rows: Mapping[str, int]) -> dict[str, str]:
    return {f"{kind}RowCount": str(count) for kind, count in changed_rows.items()}


@dataclass(frozen=True)
class ResultTable:
    """The table for the rows of a SELECT.

    `expires_us`: when the stand-in deletes the table; None except for an anonymous table, which holds the rows of a
    query without a destination.
    """

    table: TableId
    create_disposition: str = "CREATE_IF_NEEDED"
    write_disposition: str = "WRITE_EMPTY"
    expires_us: int | None = None

    @property
    def is_anonymous(self) -> bool:
        return self.expires_us is not None


class StatementRun(SqlEvaluator):
    """One run of a statement.

    `job_key`: None in a dry run, which commits nothing. `result`: where a SELECT writes its rows; None for other
    statements, and in a dry run.
    """

    def __init__(self, state: ScriptState, job_key: str | None, result: ResultTable | None) -> None:
        super().__init__(state)
        self.job_key, self.result = job_key, result
        self._started = time.perf_counter()

    @property
    def is_dry(self) -> bool:
        return self.job_key is None

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog

    def target(self, name: TableName) -> TableId:
        """A table that the statement creates or changes. Raises NotFound as `ScriptState.check_location` does."""
        table = self.state.record.table(name)
        self.state.check_location(table.dataset_id)
        return table

    def dml_target(self, name: TableName) -> tuple[TableId, TableVersion]:
        """The table that a DML statement changes, and the version of it that the statement reads.

        Raises NotFound if there is no such table, InvalidQuery for a view, and AccessDenied if the caller may not read
        all rows.
        """
        if is_information_schema_view(name):
            raise InvalidQuery(f"{name.table} is a view: DML cannot change it")
        table, version = self.reader.version(name, None)
        check_all_rows(self.state.caller, self.catalog, table, version, "DML")
        return table, version

    def scan(self, tree: exp.Expression) -> ScannedBytes:
        """What the query reads. Raises StandInError if that is too much."""
        scanned = self.scanned_bytes(tree)
        check_bytes_billed(scanned, self.state.maximum_bytes_billed)
        return scanned

    def columns(self, tree: exp.Expression) -> tuple[TableField, ...]:
        """The columns of a query, which is not run."""
        return self.state.session.schema(self.duckdb_sql(tree))

    def outcome(self, kind: str, scanned: ScannedBytes = NOTHING_SCANNED, **more: Any) -> Outcome:
        """The outcome of a statement of this kind that has read `scanned`. `more`: further fields of the outcome."""
        slot_ms = 0 if self.is_dry else max(1, int((time.perf_counter() - self._started) * 1000))
        return Outcome(kind, scanned.processed, scanned.billed, slot_ms, **more)

    def write(self, rows: pa.Table, settings: TableSettings) -> NewSegments:
        """Write rows of a table with these settings as segments."""
        return {key: [self.catalog.segments.write(part)] for key, part in split_rows(rows, settings)}

    def commit(self, table: TableId, change: Change, outcome: Outcome) -> Outcome:
        """Commit a change of the table, and return the outcome."""
        self.catalog.commit(table, change, self.commit_info(outcome))
        return outcome

    def commit_info(self, outcome: Outcome) -> CommitInfo:
        assert self.job_key is not None  # a dry run commits nothing
        return CommitInfo(self.job_key, outcome.statistics())
