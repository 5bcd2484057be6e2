"""The ledger as a BigQuery table for analysts: one row an attempt, appended by a load job, which is free.

The records in state are the truth. A row is appended under a job id of its own, so that nobody appends it twice.
"""

from __future__ import annotations

from typing import Any

from dedup_clone.checks.verdicts import Verdicts
from dedup_clone.contract.records import to_plain
from dedup_clone.publish.services import Services
from dedup_clone.state.ledger import LedgerRecord

LEDGER_TABLE = "dedup_clone_ledger"

_COST = ("query_bytes_billed", "table_bytes_read", "slot_ms", "query_usd", "merge_usd", "qualify_usd")
_TYPES = {
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
    "ties": "INTEGER",
    "bytes_read": "INTEGER",
    "bytes_written": "INTEGER",
    **{name: "FLOAT" if name.endswith("_usd") else "INTEGER" for name in _COST},
}


def append_to_ledger_table(services: Services, record: LedgerRecord, verdicts: tuple[Verdicts, ...]) -> None:
    """Append one attempt's row. Harmless when it was appended before."""
    services.warehouse.append_row(
        LEDGER_TABLE,
        ledger_schema(),
        ledger_row(record, verdicts),
        f"dedup_clone-{record.feed}-{record.attempt}-ledger",
    )


def ledger_schema() -> list[dict[str, Any]]:
    """The table's schema as the REST API writes it."""
    return [
        *[{"name": name, "type": kind} for name, kind in _TYPES.items()],
        {"name": "deliveries", "type": "STRING", "mode": "REPEATED"},
        {"name": "plans", "type": "STRING", "mode": "REPEATED"},
        _repeated("phases", name="STRING", seconds="FLOAT"),
        _repeated("shares", name="STRING", share="FLOAT"),
        _repeated("verdicts", phase="STRING", check_name="STRING", level="STRING", found="STRING", expected="STRING"),
    ]


def ledger_row(record: LedgerRecord, verdicts: tuple[Verdicts, ...]) -> dict[str, Any]:
    """One record and its verdicts, flat where SQL likes it flat."""
    plain = to_plain(record)
    costs = plain["cost"] or {}
    plain["total_rows"] = record.rows  # ROWS is a reserved word
    return {
        **{name: costs.get(name) if name in _COST else plain[name] for name in _TYPES},
        "deliveries": [d.name for d in record.deliveries],
        "plans": plain["plans"],
        "phases": [{"name": name, "seconds": seconds} for name, seconds in sorted(record.phases.items())],
        "shares": [{"name": name, "share": share} for name, share in sorted(record.shares.items())],
        "verdicts": [
            {"phase": v.phase, "check_name": i.check, "level": str(i.level), "found": i.found, "expected": i.expected}
            for v in verdicts
            for i in v.items
        ],
    }


def _repeated(column: str, /, **fields: str) -> dict[str, Any]:
    inner = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"name": column, "type": "RECORD", "mode": "REPEATED", "fields": inner}
