"""Defines the ledger table for analysts and the status view for readers.

The table has a row for each attempt, made from the attempt's ledger record in state. Of each feed the view has the row
of the live generation.
"""

from __future__ import annotations

from typing import Any

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.records import to_plain
from dedup_clone.publish.records.publish_phases import phases_in_order
from dedup_clone.state.current import Retirement
from dedup_clone.state.ledger import LedgerRecord

LEDGER_TABLE = "dedup_clone_ledger"

LEDGER_DESCRIPTION = "Every attempt to publish, roll back, take over or erase: its result, its duration, its cost."
LEDGER_COLUMNS = {
    "feed": "name of the feed, and of its table",
    "outcome": "published; refused: every delivery was refused; failed: it ended otherwise, and committed nothing; "
    "retired: it took the feed out of use",
    "reason": "why it failed or was refused; of a run by hand, the reason that was given",
    "snapshot_id": "id of the newest snapshot in the generation, or in a failed attempt",
    "generation": "number of the generation; numbers are never reused",
    "parent": "the generation that it builds on; NULL if there was none",
    "kind": "publish, rollback, bootstrap, rebuild, erase or retire",
    "restores": "the generation that a rollback made live again; NULL for every other attempt",
    "replay": "whether its deliveries, or the replayed dates, had been live before",
    "attempt": "unique name of the attempt, and of its folder in the state bucket",
    "dag_id": "the DAG of the Airflow run",
    "run_id": "the Airflow run",
    "engine": "what deduplicated: spark, bigquery (QUALIFY), merge or cdc",
    "arrived_at": "when the marker of snapshot_id was written",
    "swapped_at": "when readers began to see it; NULL if they never did; of a retirement: its time",
    "lag_s": "seconds from the arrival of the newest of deliveries that was never live before to the swap; else NULL",
    "total_rows": "rows of the table",
    "new_rows": "rows whose key the parent lacks",
    "changed_rows": "rows with other values than the parent's; NULL if values were not compared",
    "kept_rows": "rows retained although the newest snapshot lacks their key",
    "dropped_rows": "rows of the deliveries and of the parent that were older than the retention",
    "change_rows": "rows of the generation in FEED_changes; NULL if that table cannot tell what it changed",
    "ties": "surplus rows of duplicate keys within single deliveries",
    "bytes_read": "bytes of files that the dedup job read",
    "bytes_written": "bytes of files that the dedup job wrote",
    "cluster_overlap": "share by which files overlap in the first clustering column; NULL without clustering",
    "erased_rows": "rows that an erasure removed; NULL for every other attempt",
    "query_bytes_billed": "bytes that BigQuery billed for the attempt's queries",
    "table_bytes_read": "bytes of tables that these queries read",
    "slot_ms": "slot milliseconds of the attempt's jobs",
    "query_usd": "US dollars for these queries, on demand",
    "merge_usd": "US dollars that one MERGE with the same result would cost; NULL for rollbacks and bootstraps",
    "qualify_usd": "US dollars that one QUALIFY with the same result would cost; NULL for rollbacks and bootstraps",
    "streamed_bytes": "bytes of rows that engine cdc streamed, pseudocolumns included",
    "apply_bytes": "estimated bytes that BigQuery reads to apply what engine cdc streamed",
    "stream_usd": "US dollars for what engine cdc streamed, and for applying it",
    "spark_usd": "US dollars for the Spark runs, failed ones too; NULL if not known",
    "dcu_hours": "DCU hours that the Spark runs used; NULL if their service does not report them",
    "deliveries": "the deliveries that were applied whole, each as snapshot id and marker generation",
    "plans": "how dates were written",
    "phases": "seconds of each phase, in the order in which they happen; of a publish with a lag, they add up to it",
    "shares": "new, missing and changed rows as fractions of the rows on dates that both parent and delivery have",
    "verdicts": "results of the checks before and after the swap, with their evidence",
    "phases.name": "name of the phase; which ones there are: docs/hour.md",
    "phases.seconds": "how long it took",
    "shares.name": "name of the check, such as new_share",
    "shares.share": "fraction of the rows, 0 to 1",
    "verdicts.phase": "before or after the swap",
    "verdicts.check_name": "name of the check; what each means: docs/runbook.md",
    "verdicts.level": "pass, warn or fail; only fail ends a run",
    "verdicts.found": "what the check found",
    "verdicts.expected": "what it expected",
}

STATUS_VIEW = "dedup_clone_status"

STATUS_DESCRIPTION = "Which generation of each feed's table readers see: one row for each feed, read from the ledger."
STATUS_COLUMNS = {
    "feed": "name of the feed, and of its table",
    "generation": "number of the committed table; each publish and each rollback makes one",
    "snapshot_id": "id of the newest snapshot in the generation, which is what readers see",
    "arrived_at": "when that snapshot's marker was written",
    "swapped_at": "since when readers see the generation",
    "replay": "whether a replay made the generation: its deliveries, or the replayed dates, had been live before",
    "restores": "the generation that a rollback made live again; NULL if no rollback did",
}

_COST_COLUMNS = (
    *("query_bytes_billed", "table_bytes_read", "slot_ms", "query_usd", "merge_usd", "qualify_usd"),
    *("streamed_bytes", "apply_bytes", "stream_usd", "spark_usd", "dcu_hours"),
)
_COLUMN_TYPES = {
    "feed": "STRING",
    "kind": "STRING",
    "outcome": "STRING",
    "reason": "STRING",
    "snapshot_id": "INTEGER",
    "generation": "INTEGER",
    "parent": "INTEGER",
    "restores": "INTEGER",
    "replay": "BOOLEAN",
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
    "change_rows": "INTEGER",
    "ties": "INTEGER",
    "bytes_read": "INTEGER",
    "bytes_written": "INTEGER",
    "cluster_overlap": "FLOAT",
    **{name: "FLOAT" if name.endswith(("_usd", "_hours")) else "INTEGER" for name in _COST_COLUMNS},
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
    plain["replay"] = record.is_replay
    return {
        **{name: costs.get(name) if name in _COST_COLUMNS else plain[name] for name in _COLUMN_TYPES},
        "deliveries": [d.name for d in record.deliveries],
        "plans": plain["plans"],
        "phases": [{"name": name, "seconds": seconds} for name, seconds in phases_in_order(record.phases)],
        "shares": [{"name": name, "share": share} for name, share in sorted(record.shares.items())],
        "verdicts": [
            {"phase": r.phase, "check_name": i.check, "level": str(i.level), "found": i.found, "expected": i.expected}
            for r in results
            for i in r.items
        ],
    }


def retired_row(feed: str, record: Retirement) -> dict[str, Any]:
    """The row of a retirement, by which the feed leaves the status view."""
    plain = to_plain(record)
    row = {name: plain[name] for name in ("reason", "generation", "attempt", "run_id")}
    return {"feed": feed, **row, "kind": Kind.RETIRE, "outcome": "retired", "swapped_at": plain["retired_at"]}


def _repeated(column: str, /, **fields: str) -> dict[str, Any]:
    inner = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"name": column, "type": "RECORD", "mode": "REPEATED", "fields": inner}
