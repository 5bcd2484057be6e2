"""Reports attempts in BigQuery: each is a row of table `dedup_clone_ledger`, which view `dedup_clone_status` reads.

An attempt's row is stored in state before CURRENT is written. Its run loads it afterwards; what a run could not load,
the watchdog tries again. A load job's id consists of attempt and number, and a number is tried only if the jobs of all
lower numbers failed. So each row is loaded once, whoever tries it (docs/adr/0014-reporting-tables.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.errors import ContractViolation, JobFailed
from dedup_clone.publish.attempt_jobs import attempt_job_id
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.publish.records.ledger_table import (
    LEDGER_COLUMNS,
    LEDGER_DESCRIPTION,
    LEDGER_TABLE,
    STATUS_COLUMNS,
    STATUS_DESCRIPTION,
    STATUS_VIEW,
    ledger_row,
    ledger_schema,
)
from dedup_clone.publish.services import Services
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.reporting_backlog import ReportingBacklog
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, BRIEF_TIMEOUT_S
from dedup_clone.warehouse.metadata import JobMetadata

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
