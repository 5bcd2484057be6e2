"""The ledger table for analysts: one row for each attempt. The ledger records in state are its source."""

from __future__ import annotations

from typing import Any

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.records import to_plain
from dedup_clone.state.ledger import LedgerRecord

LEDGER_TABLE = "dedup_clone_ledger"

_COST_COLUMNS = (
    *("query_bytes_billed", "table_bytes_read", "slot_ms", "query_usd", "merge_usd", "qualify_usd"),
    *("streamed_bytes", "apply_bytes", "stream_usd"),
)
_COLUMN_TYPES = {
    "feed": "STRING",
    "outcome": "STRING",
    "reason": "STRING",
    "snapshot_id": "INTEGER",
    "generation": "INTEGER",
    "parent": "INTEGER",
    "restores": "INTEGER",
    "attempt": "STRING",
    "dag_id": "STRING",
    "run_id": "STRING",
    "engine": "STRING",
    "arrived_at": "TIMESTAMP",
    "swapped_at": "TIMESTAMP",
    "lag_s": "FLOAT",
    "total_rows": "INTEGER",
    "new_rows": "INTEGER",
    "changed_rows": "INTEGER",
    "kept_rows": "INTEGER",
    "dropped_rows": "INTEGER",
    "erased_rows": "INTEGER",
    "ties": "INTEGER",
    "bytes_read": "INTEGER",
    "bytes_written": "INTEGER",
    **{name: "FLOAT" if name.endswith("_usd") else "INTEGER" for name in _COST_COLUMNS},
}


def ledger_schema() -> list[dict[str, Any]]:
    """The table's schema as the REST API writes it."""
    return [
        *[{"name": name, "type": kind} for name, kind in _COLUMN_TYPES.items()],
        {"name": "deliveries", "type": "STRING", "mode": "REPEATED"},
        {"name": "plans", "type": "STRING", "mode": "REPEATED"},
        _repeated("phases", name="STRING", seconds="FLOAT"),
        _repeated("shares", name="STRING", share="FLOAT"),
        _repeated("verdicts", phase="STRING", check_name="STRING", level="STRING", found="STRING", expected="STRING"),
    ]


def ledger_row(record: LedgerRecord, results: tuple[CheckResults, ...]) -> dict[str, Any]:
    """The row of one record and its check results, with the costs as columns of their own."""
    plain = to_plain(record)
    costs = plain["cost"] or {}
    plain["total_rows"] = record.rows  # ROWS is a reserved word
    return {
        **{name: costs.get(name) if name in _COST_COLUMNS else plain[name] for name in _COLUMN_TYPES},
        "deliveries": [d.name for d in record.deliveries],
        "plans": plain["plans"],
        "phases": [{"name": name, "seconds": seconds} for name, seconds in sorted(record.phases.items())],
        "shares": [{"name": name, "share": share} for name, share in sorted(record.shares.items())],
        "verdicts": [
            {"phase": r.phase, "check_name": i.check, "level": str(i.level), "found": i.found, "expected": i.expected}
            for r in results
            for i in r.items
        ],
    }


def _repeated(column: str, /, **fields: str) -> dict[str, Any]:
    inner = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"name": column, "type": "RECORD", "mode": "REPEATED", "fields": inner}
