"""What one statement did, and the job statistics that say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from devstack.bigquery.storage.model import TableId


@dataclass(frozen=True)
class Outcome:
    statement_type: str
    bytes_processed: int = 0
    bytes_billed: int = 0
    slot_ms: int = 0
    tables: tuple[TableId, ...] = ()
    ddl_operation: str | None = None
    ddl_table: TableId | None = None
    inserted_rows: int | None = None
    destination: TableId | None = None  # of a SELECT

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
        if self.inserted_rows is not None:
            query["numDmlAffectedRows"] = str(self.inserted_rows)
            query["dmlStats"] = {"insertedRowCount": str(self.inserted_rows)}
        return _job_statistics(self.bytes_processed, self.slot_ms, query)


def script_statistics(children: Iterable[Outcome]) -> dict[str, Any]:
    """A script's own: the sums over its statements."""
    found = list(children)
    processed = sum(child.bytes_processed for child in found)
    slot_ms = sum(child.slot_ms for child in found)
    query = {
        "statementType": "SCRIPT",
        "totalBytesProcessed": str(processed),
        "totalBytesBilled": str(sum(child.bytes_billed for child in found)),
        "totalSlotMs": str(slot_ms),
        "cacheHit": False,
    }
    return _job_statistics(processed, slot_ms, query) | {"numChildJobs": str(len(found))}


def _job_statistics(processed: int, slot_ms: int, query: dict[str, Any]) -> dict[str, Any]:
    return {"totalBytesProcessed": str(processed), "totalSlotMs": str(slot_ms), "query": query}
