"""Reports attempts in BigQuery: each is a row of table `dedup_clone_ledger`, which view `dedup_clone_status` reads.

An attempt's row is stored in state before CURRENT is written. Its run loads it afterwards; what a run could not load,
the watchdog tries again. A load job's id consists of attempt and number, and a number is tried only if the jobs of all
lower numbers failed. So each row is loaded once, whoever tries it (docs/adr/0014-reporting-tables.md).

The view has the row of each feed's live generation.
"""

from __future__ import annotations

import logging
import time
import typing
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import NoneType
from typing import Any

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import ContractViolation, JobFailed
from dedup_clone.contract.records import to_plain
from dedup_clone.publish.attempt_jobs import StepJob, find_job
from dedup_clone.publish.attempts import best_effort
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Retirement
from dedup_clone.state.ledger import Cost, LedgerRecord, ReportingBacklog
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, BRIEF_TIMEOUT_S

LEDGER_TABLE = "dedup_clone_ledger"
STATUS_VIEW = "dedup_clone_status"
_LEDGER_DESCRIPTION = "Every attempt to publish, roll back, take over or erase: its result, its duration, its cost."
_STATUS_DESCRIPTION = "Which generation of each feed's table readers see: one row for each feed, read from the ledger."
_COLUMN_NAMES = {"rows": "total_rows"}  # ROWS is a reserved word
_COLUMN_TYPES = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", datetime: "TIMESTAMP"}  # all others are text
_VERDICTS = {
    "verdicts": ("REPEATED RECORD", "results of the checks before and after the swap, with their evidence"),
    "verdicts.phase": ("STRING", "before or after the swap"),
    "verdicts.check_name": ("STRING", "name of the check; what each means: docs/runbook.md"),
    "verdicts.level": ("STRING", "pass, warn or fail; only fail ends a run"),
    "verdicts.found": ("STRING", "what the check found"),
    "verdicts.expected": ("STRING", "what it expected"),
}


def ledger_columns() -> dict[str, tuple[str, str]]:
    """Each column's type and description by path: the fields of a record, those of its cost, and the checks."""
    return {**dict(_columns_of(LedgerRecord)), **dict(_columns_of(Cost)), **_VERDICTS}


def _columns_of(kind: type) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if typing.get_origin(hint) is typing.Annotated:  # else the cost, whose fields are columns of their own
            description, *values = hint.__metadata__
            yield _COLUMN_NAMES.get(name, name), (_column_type(hint.__origin__), description)
            for value, text in values:
                yield f"{name}.name", ("STRING", "name of the phase or check")
                yield f"{name}.{value}", ("FLOAT", text)


def _column_type(hint: Any) -> str:
    container = typing.get_origin(hint)
    if container in (dict, tuple):
        return "REPEATED RECORD" if container is dict else "REPEATED STRING"
    (kind,) = [one for one in typing.get_args(hint) or (hint,) if one is not NoneType]
    return _COLUMN_TYPES.get(kind, "STRING")


def ledger_schema() -> list[dict[str, Any]]:
    """The table's schema as the REST API writes it."""
    schema: list[dict[str, Any]] = []
    for name, (kind, _) in ledger_columns().items():
        repeated, _, kind = kind.rpartition(" ")
        parent, _, column = name.rpartition(".")
        field = {"name": column, "type": kind, **({"mode": repeated} if repeated else {})}
        siblings = schema[-1].setdefault("fields", []) if parent else schema
        siblings.append(field)
    return schema


def ledger_row(record: LedgerRecord, results: tuple[CheckResults, ...]) -> dict[str, Any]:
    """The row of one record and its check results."""
    plain = to_plain(record)
    costs = plain.pop("cost") or {}
    return {
        **{_COLUMN_NAMES.get(name, name): value for name, value in plain.items()},
        **costs,
        "deliveries": [d.name for d in record.deliveries],
        "phases": [{"name": name, "seconds": seconds} for name, seconds in record.phases.items()],
        "shares": [{"name": name, "share": share} for name, share in record.shares.items()],
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
    backlog, job = ReportingBacklog(services.store), find_job(services, feed, attempt, STEP)
    if not is_due(services, job):
        return False
    row = backlog.read_row(feed, attempt)  # not before the job is chosen, see `stop_load`
    if row is None:
        return False
    services.warehouse.start_load(job.job_id, LEDGER_TABLE, ledger_schema(), [row])
    wait_for_load(services, job, LEDGER_TABLE)
    backlog.remove(feed, attempt)
    with best_effort(services, f"[{LEDGER_TABLE}] and [{STATUS_VIEW}] are not described until the next load"):
        descriptions = {column: description for column, (_, description) in ledger_columns().items()}
        services.warehouse.alterations.describe_table(LEDGER_TABLE, _LEDGER_DESCRIPTION, descriptions)
        if services.warehouse.table(STATUS_VIEW) is None:
            services.warehouse.create_status_view(services.names)
            services.warehouse.alterations.describe_table(STATUS_VIEW, _STATUS_DESCRIPTION, descriptions)
    return True


def is_due(services: Services, job: StepJob) -> bool:
    """Whether the load job exists, or may be started now: after each job that failed, the pause is longer."""
    if job.metadata is not None or job.failed is None or job.failed.ended_at is None:
        return True
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(job.failures - 1, 10), LONGEST_PAUSE)
    return services.now() >= job.failed.ended_at + pause


def wait_for_load(services: Services, job: StepJob, table: str) -> None:
    """Wait for a job that loads rows into a reporting table. Raises JobFailed, and TimeoutError when it takes long."""
    (ended,) = services.warehouse.wait_for_jobs([job.job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)
    if ended.error:
        text = f"BigQuery job [{job.job_id}] loaded nothing into [{table}]: {ended.error}"
        raise JobFailed(text, message=ended.error, reason="")


def stop_load(services: Services, feed: str, attempt: str, step: str = STEP) -> None:
    """After what is to be loaded was changed: let no job load it as it was, and wait for a job that does already.

    Raises TimeoutError when that job does not end in time.
    """
    job_id = find_job(services, feed, attempt, step).job_id
    services.warehouse.fence_job_id(job_id)
    services.warehouse.wait_for_jobs([job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)
