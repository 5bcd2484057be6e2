"""Reports attempts in BigQuery: each is a row of table `dedup_clone_ledger`, which view `dedup_clone_status` reads.

An attempt's row is stored in state before CURRENT is written. Its run loads it afterwards; what a run could not load,
the watchdog tries again. A load job's id consists of attempt and number, and a number is tried only if the jobs of all
lower numbers failed. So each row is loaded once, whoever tries it (docs/adr/0014-reporting-tables.md).

The view has the row of each feed's live generation.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import ContractViolation, JobFailed
from dedup_clone.contract.records import to_plain
from dedup_clone.publish.attempt_jobs import attempt_job_id
from dedup_clone.publish.attempts import best_effort
from dedup_clone.publish.ledger_record import phases_in_order
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Retirement
from dedup_clone.state.ledger import Cost, LedgerRecord, ReportingBacklog
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, BRIEF_TIMEOUT_S
from dedup_clone.warehouse.metadata import JobMetadata

LEDGER_TABLE = "dedup_clone_ledger"

LEDGER_DESCRIPTION = "Every attempt to publish, roll back, take over or erase: its result, its duration, its cost."
# Each column with its type and its description, in the order of the table.
LEDGER_COLUMNS = {
    "feed": ("STRING", "name of the feed, and of its table"),
    "kind": ("STRING", "publish, rollback, bootstrap, rebuild, erase or retire"),
    "outcome": (
        "STRING",
        "published; refused: every delivery was refused; failed: it ended otherwise, and committed nothing; "
        "retired: it took the feed out of use",
    ),
    "reason": ("STRING", "why it failed or was refused; of a run by hand, the reason that was given"),
    "snapshot_id": ("INTEGER", "id of the newest snapshot in the generation, or in a failed attempt"),
    "generation": ("INTEGER", "number of the generation; numbers are never reused"),
    "parent": ("INTEGER", "the generation that it builds on; NULL if there was none"),
    "restores": ("INTEGER", "the generation that a rollback made live again; NULL for every other attempt"),
    "replay": ("BOOLEAN", "whether its deliveries, or the replayed dates, had been live before"),
    "attempt": ("STRING", "unique name of the attempt, and of its folder in the state bucket"),
    "dag_id": ("STRING", "the DAG of the Airflow run"),
    "run_id": ("STRING", "the Airflow run"),
    "engine": ("STRING", "what deduplicated: spark, bigquery (QUALIFY), merge or cdc"),
    "arrived_at": ("TIMESTAMP", "when the marker of snapshot_id was written"),
    "swapped_at": ("TIMESTAMP", "when readers began to see it; NULL if they never did; of a retirement: its time"),
    "lag_s": (
        "FLOAT",
        "seconds from the arrival of the newest of deliveries that was never live before to the swap; else NULL",
    ),
    "total_rows": ("INTEGER", "rows of the table"),
    "new_rows": ("INTEGER", "rows whose key the parent lacks"),
    "changed_rows": ("INTEGER", "rows with other values than the parent's; NULL if values were not compared"),
    "kept_rows": ("INTEGER", "rows retained although the newest snapshot lacks their key"),
    "dropped_rows": ("INTEGER", "rows of the deliveries and of the parent that were older than the retention"),
    "erased_rows": ("INTEGER", "rows that an erasure removed; NULL for every other attempt"),
    "change_rows": (
        "INTEGER",
        "rows of the generation in FEED_changes; NULL if that table cannot tell what it changed",
    ),
    "ties": ("INTEGER", "surplus rows of duplicate keys within single deliveries"),
    "bytes_read": ("INTEGER", "bytes of files that the dedup job read"),
    "bytes_written": ("INTEGER", "bytes of files that the dedup job wrote"),
    "cluster_overlap": (
        "FLOAT",
        "share by which files overlap in the first clustering column; NULL without clustering",
    ),
    "query_bytes_billed": ("INTEGER", "bytes that BigQuery billed for the attempt's queries"),
    "table_bytes_read": ("INTEGER", "bytes of tables that these queries read"),
    "slot_ms": ("INTEGER", "slot milliseconds of the attempt's jobs"),
    "query_usd": ("FLOAT", "US dollars for these queries, on demand"),
    "merge_usd": (
        "FLOAT",
        "US dollars that one MERGE with the same result would cost; NULL for rollbacks and bootstraps",
    ),
    "qualify_usd": (
        "FLOAT",
        "US dollars that one QUALIFY with the same result would cost; NULL for rollbacks and bootstraps",
    ),
    "streamed_bytes": ("INTEGER", "bytes of rows that engine cdc streamed, pseudocolumns included"),
    "apply_bytes": ("INTEGER", "estimated bytes that BigQuery reads to apply what engine cdc streamed"),
    "stream_usd": ("FLOAT", "US dollars for what engine cdc streamed, and for applying it"),
    "spark_usd": ("FLOAT", "US dollars for the Spark runs, failed ones too; NULL if not known"),
    "dcu_hours": ("FLOAT", "DCU hours that the Spark runs used; NULL if their service does not report them"),
    "deliveries": (
        "REPEATED STRING",
        "the deliveries that were applied whole, each as snapshot id and marker generation",
    ),
    "plans": ("REPEATED STRING", "how dates were written"),
    "phases": (
        "REPEATED RECORD",
        "seconds of each phase, in the order in which they happen; of a publish with a lag, they add up to it",
    ),
    "phases.name": ("STRING", "name of the phase; which ones there are: docs/costs-and-limits.md"),
    "phases.seconds": ("FLOAT", "how long it took"),
    "shares": (
        "REPEATED RECORD",
        "new, missing and changed rows as fractions of the rows on dates that both parent and delivery have",
    ),
    "shares.name": ("STRING", "name of the check, such as new_share"),
    "shares.share": ("FLOAT", "fraction of the rows, 0 to 1"),
    "verdicts": ("REPEATED RECORD", "results of the checks before and after the swap, with their evidence"),
    "verdicts.phase": ("STRING", "before or after the swap"),
    "verdicts.check_name": ("STRING", "name of the check; what each means: docs/runbook.md"),
    "verdicts.level": ("STRING", "pass, warn or fail; only fail ends a run"),
    "verdicts.found": ("STRING", "what the check found"),
    "verdicts.expected": ("STRING", "what it expected"),
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


def ledger_schema() -> list[dict[str, Any]]:
    """The table's schema as the REST API writes it."""
    schema: list[dict[str, Any]] = []
    for name, (kind, _) in LEDGER_COLUMNS.items():
        repeated, _, kind = kind.rpartition(" ")
        parent, _, column = name.rpartition(".")
        field = {"name": column, "type": kind, **({"mode": repeated} if repeated else {})}
        siblings = schema[-1].setdefault("fields", []) if parent else schema
        siblings.append(field)
    return schema


def ledger_row(record: LedgerRecord, results: tuple[CheckResults, ...]) -> dict[str, Any]:
    """The row of one record and its check results, with the costs as columns of their own."""
    plain = to_plain(record)
    costs = plain["cost"] or dict.fromkeys(field.name for field in dataclasses.fields(Cost))
    plain |= {**costs, "total_rows": record.rows, "replay": record.is_replay}  # ROWS is a reserved word
    return {
        **{column: plain[column] for column in LEDGER_COLUMNS if column in plain},
        "deliveries": [d.name for d in record.deliveries],
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


STEP = "ledger"
# Pauses after a failed load job: they double from the first to the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=6)
# BigQuery allows five changes of an unpartitioned table in ten seconds, and 1,500 loads into a table a day.
SECONDS_BETWEEN_LOADS = 3.0
MAX_LOADS = 20  # of one call of `load_ledger_rows`


def record_attempt(services: Services, record: LedgerRecord, results: tuple[CheckResults, ...]) -> None:
    """Write the attempt's ledger record, and its row for the ledger table, to state. Safe to repeat."""
    services.ledger.write(record)
    ReportingBacklog(services.store).add_row(record.feed, record.attempt, ledger_row(record, results))


def try_report(services: Services, attempt: str) -> None:
    """Load the attempt's row into the ledger table. A failure is logged and never raised."""
    with best_effort(services, f"[{LEDGER_TABLE}] lacks attempt [{attempt}] until a run of the watchdog loads its row"):
        load_row(services, services.feed.feed, attempt)


def load_ledger_rows(services: Services, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Load the rows of all feeds that the ledger table lacks, at most MAX_LOADS of them, until one cannot be loaded.

    A row that cannot be read does not keep the others from the table. Raises TimeoutError when a load job does not end
    in time, and errors of BigQuery and Cloud Storage.
    """
    loads = 0
    for waiting in ReportingBacklog(services.store).waiting():
        try:
            is_loaded = load_row(services, waiting.feed, waiting.attempt)
        except ContractViolation as error:
            services.log(f"[{LEDGER_TABLE}] lacks a row: {error}", level=logging.WARNING)
            continue
        except JobFailed as error:
            services.log(str(error), level=logging.WARNING)
            return
        if is_loaded:
            loads += 1
            if loads == MAX_LOADS:
                return
            sleep(SECONDS_BETWEEN_LOADS)


def load_row(services: Services, feed: str, attempt: str) -> bool:
    """Load the row of an attempt, unless the ledger table has it or a load has just failed. Whether it was loaded.

    Raises JobFailed, TimeoutError when the load job does not end in time, and ContractViolation for a damaged row.
    """
    backlog = ReportingBacklog(services.store)
    next_load = find_next_load(services, feed, attempt, STEP)
    if not next_load.is_due:
        return False
    row = backlog.read_row(feed, attempt)  # not before the job is chosen, see `stop_load`
    if row is None:
        return False
    services.warehouse.start_load(next_load.job_id, LEDGER_TABLE, ledger_schema(), [row])
    (job,) = services.warehouse.wait_for_jobs([next_load.job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)
    if job.error:
        text = f"BigQuery job [{next_load.job_id}] did not load a row into [{LEDGER_TABLE}]: {job.error}"
        raise JobFailed(text, message=job.error, reason="")
    backlog.remove(feed, attempt)
    with best_effort(services, f"[{LEDGER_TABLE}] is not described until its next load"):
        descriptions = {column: description for column, (_, description) in LEDGER_COLUMNS.items()}
        services.warehouse.alterations.describe_table(LEDGER_TABLE, LEDGER_DESCRIPTION, descriptions)
    with best_effort(services, f"view [{STATUS_VIEW}] is not made until the next load into [{LEDGER_TABLE}]"):
        _make_status_view(services)
    return True


def stop_load(services: Services, feed: str, attempt: str, step: str = STEP) -> None:
    """After what is to be loaded was changed: let no job load it as it was, and wait for a job that does already.

    Raises TimeoutError when that job does not end in time.
    """
    job_id = find_next_load(services, feed, attempt, step).job_id
    services.warehouse.fence_job_id(job_id)
    services.warehouse.wait_for_jobs([job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)


@dataclass(frozen=True)
class NextLoad:
    """The first load job of a step that has not failed. `job`: None while it does not exist.

    `failed`: how many jobs before it failed. `is_due`: False if the job does not exist, and a pause is not over.
    """

    job_id: str
    job: JobMetadata | None
    failed: int
    is_due: bool


def find_next_load(services: Services, feed: str, attempt: str, step: str) -> NextLoad:
    failed, due_at = 0, None
    while True:
        job_id = attempt_job_id(feed, attempt, step, failed + 1)
        job = services.warehouse.job(job_id)
        if job is None or not job.error:
            return NextLoad(job_id, job, failed, job is not None or due_at is None or services.now() >= due_at)
        if job.ended_at is not None:
            due_at = job.ended_at + min(FIRST_PAUSE * 2 ** min(failed, 10), LONGEST_PAUSE)
        failed += 1


def _make_status_view(services: Services) -> None:
    """Make the view, unless it exists."""
    found = services.warehouse.table(STATUS_VIEW)
    if found is None:
        services.warehouse.create_status_view(services.names)
        services.warehouse.alterations.describe_table(STATUS_VIEW, STATUS_DESCRIPTION, STATUS_COLUMNS)
    elif found.kind != "VIEW":
        services.log(
            f"[{STATUS_VIEW}] is no view but a [{found.kind}], so it no longer tells what readers see: drop it "
            f"(DROP TABLE `{services.names.project}.{services.names.dataset}.{STATUS_VIEW}`); the next publish makes "
            f"the view",
            level=logging.WARNING,
        )
