"""Defines the outcome of a statement, and the job statistics that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bigquery_standin.storage.model import CommitInfo, TableId
from bigquery_standin.storage.routine_store import RoutineId
from bigquery_standin.storage.row_policy_rules import policy_reference


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
    ddl_row_policy: str | None = None  # a policy of `ddl_table`, by name
    dropped_row_policies: int | None = None  # of DROP ALL ROW ACCESS POLICIES
    changed_rows: Mapping[str, int] | None = None  # of DML: how many were `inserted`, `updated`, `deleted`
    destination: TableId | None = None  # of a SELECT: the table with its rows
    ddl_routine: RoutineId | None = None  # of CREATE PROCEDURE and DROP PROCEDURE
    spark_job: Mapping[str, str] | None = None  # of a CALL, as in SparkStatistics of the API

    def statistics(self) -> dict[str, Any]:
        query: dict[str, Any] = {
            "statementType": self.statement_type,
            "totalBytesProcessed": str(self.bytes_processed),
            "totalBytesBilled": str(self.bytes_billed),
            "totalSlotMs": str(self.slot_ms),
            "cacheHit": False,
            "billingTier": 1,
        }
        if self.tables:
            query["referencedTables"] = [table.to_api() for table in self.tables]
        if self.ddl_operation is not None:
            query["ddlOperationPerformed"] = self.ddl_operation
        if self.ddl_table is not None:
            query["ddlTargetTable"] = self.ddl_table.to_api()
            if self.ddl_row_policy is not None:
                query["ddlTargetRowAccessPolicy"] = policy_reference(self.ddl_table, self.ddl_row_policy)
        if self.dropped_row_policies is not None:
            query["ddlAffectedRowAccessPolicyCount"] = str(self.dropped_row_policies)
        if self.ddl_routine is not None:
            query["ddlTargetRoutine"] = self.ddl_routine.to_api()
        if self.spark_job is not None:
            query["sparkStatistics"] = dict(self.spark_job)
        if self.changed_rows is not None:
            query["numDmlAffectedRows"] = str(sum(self.changed_rows.values()))
            query["dmlStats"] = {f"{kind}RowCount": str(count) for kind, count in self.changed_rows.items()}
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
