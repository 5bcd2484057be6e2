"""Defines the outcome of a statement, and the job statistics that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.model import CommitInfo, TableId
from bigquery_standin.storage.routine_store import RoutineId


@dataclass(frozen=True)
class Outcome:
    """What one statement has done. Fields that do not apply to the statement keep their defaults."""

    statement_type: str
    bytes_processed: int = 0
    bytes_billed: int = 0
    slot_ms: int = 0  # here the elapsed time, because the stand-in has no slots
    tables: tuple[TableId, ...] = ()  # that the statement refers to: those read, and the target of DML
    ddl_operation: str | None = None
    ddl_table: TableId | None = None
    ddl_row_policy: Mapping[str, str] | None = None  # as RowAccessPolicyReference of the API
    dropped_row_policies: int | None = None  # of DROP ALL ROW ACCESS POLICIES
    changed_rows: Mapping[str, int] | None = None  # of DML: how many were `inserted`, `updated`, `deleted`
    destination: TableId | None = None  # of a SELECT: the table with its rows
    ddl_routine: RoutineId | None = None  # of CREATE PROCEDURE and DROP PROCEDURE
    spark_job: Mapping[str, str] | None = None  # of a CALL, as in SparkStatistics of the API
    columns: tuple[TableField, ...] = ()  # of a query's result, in a dry run
    accuracy: str | None = None  # of the bytes in a dry run: PRECISE or UPPER_BOUND

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
            "referencedTables": [table.to_api() for table in self.tables] or None,
            "ddlOperationPerformed": self.ddl_operation,
            "ddlTargetTable": self.ddl_table and self.ddl_table.to_api(),
            "ddlTargetRowAccessPolicy": self.ddl_row_policy,
            "ddlAffectedRowAccessPolicyCount": _text(self.dropped_row_policies),
            "ddlTargetRoutine": self.ddl_routine and self.ddl_routine.to_api(),
            "sparkStatistics": self.spark_job,
            "numDmlAffectedRows": _text(None if self.changed_rows is None else sum(self.changed_rows.values())),
            "dmlStats": self.changed_rows and _row_counts(self.changed_rows),
            "totalBytesProcessedAccuracy": self.accuracy,
            "schema": {"fields": [column.to_api() for column in self.columns]} if self.columns else None,
        }
        query |= {name: value for name, value in optional.items() if value is not None}
        return _job_statistics(self.bytes_processed, self.slot_ms, query)


# From a statement's outcome, makes the CommitInfo that is stored in the table version which the statement commits.
CommitInfoOf = Callable[[Outcome], CommitInfo]


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


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _row_counts(changed_rows: Mapping[str, int]) -> dict[str, str]:
    return {f"{kind}RowCount": str(count) for kind, count in changed_rows.items()}
