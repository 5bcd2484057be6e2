"""Writes the tables for readers and analysts, `dedup_clone_status` and `dedup_clone_ledger`, after each attempt.

The tables have the rows of all feeds, and BigQuery limits how often one table changes. So every run leaves its rows in
state, and one writer at a time loads all rows that the tables lack, with one load job for each table
(docs/adr/0014-reporting-tables.md).
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import replace

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import digest, to_json
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.publish.records.ledger_table import (
    LEDGER_COLUMNS,
    LEDGER_DESCRIPTION,
    LEDGER_TABLE,
    ledger_row,
    ledger_schema,
)
from dedup_clone.publish.records.status_table import (
    STATUS_COLUMNS,
    STATUS_DESCRIPTION,
    STATUS_TABLE,
    status_row,
    status_schema,
)
from dedup_clone.publish.services import Services
from dedup_clone.state.feed_status import StatusRow, StatusRows
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.reporting_backlog import ReportingBacklog, ReportingLoad, StoredWriter
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, BRIEF_TIMEOUT_S

# BigQuery allows five changes of an unpartitioned table in ten seconds.
SECONDS_BETWEEN_LOADS = 3.0
# If a load is unfinished after this time, its writer is considered dead, and the load's jobs are fenced.
WRITER_TIMEOUT_S = 30.0
ROWS_PER_LOAD = 1000  # of the ledger table
MAX_LOADS = 20  # of one call of `write_reporting_tables`
WATCHDOG = "watchdog"  # the `holder` of loads that the watchdog writes


def record_attempt(services: Services, record: LedgerRecord, results: tuple[CheckResults, ...]) -> None:
    """Write the attempt's ledger record and its rows for the reporting tables to state. Safe to repeat.

    Only an attempt that swapped has a row for the status table.
    """
    services.ledger.write(record)
    ReportingBacklog(services.store).add(record.feed, record.attempt, ledger_row(record, results))
    if record.swapped_at is not None:
        row = StatusRow(
            feed=record.feed,
            generation=record.generation,
            snapshot_id=record.snapshot_id,
            arrived_at=record.arrived_at,
            swapped_at=record.swapped_at,
            replay=record.is_replay,
            restores=record.restores,
        )
        StatusRows(services.store).write(row)


def try_write_reporting_tables(services: Services, *, holder: str) -> None:
    """Call `write_reporting_tables`. A failure is logged and never raised."""
    with best_effort(services, "the reporting tables are not updated until the next publish or watchdog run"):
        write_reporting_tables(services, holder=holder)


def write_reporting_tables(services: Services, *, holder: str) -> None:
    """Load the rows that the tables lack. If another writer is at work, return: that writer loads these rows too.

    `holder` names this writer: an attempt, or WATCHDOG. Raises TimeoutError when a load job does not end in time, and
    errors of BigQuery and Cloud Storage; the rows that were not loaded stay in state.
    """
    backlog = ReportingBacklog(services.store)
    for loads_done in range(MAX_LOADS):
        stored = backlog.read_writer()
        if stored.writer.load is not None and not _is_abandoned(services, stored.writer.load, holder):
            return
        try:
            stored, _ = _reconcile_load(services, backlog, stored)
            stored = _begin(services, backlog, stored, holder, is_first=loads_done == 0)
            if stored.writer.load is None:
                return
            _start(services, backlog, stored.writer.load)
            _, is_loaded = _reconcile_load(services, backlog, stored)
        except LostRace:
            return  # another writer has begun a load; after that it looks for new rows
        if not is_loaded:
            return


def _is_abandoned(services: Services, load: ReportingLoad, holder: str) -> bool:
    """Whether the load's writer is considered dead.

    It is, if it is an earlier try of `holder`, or if the load began more than WRITER_TIMEOUT_S ago or, by the clock of
    another worker, in the future.
    """
    return load.holder == holder or not 0 <= (services.now() - load.begun_at).total_seconds() <= WRITER_TIMEOUT_S


def _begin(
    services: Services, backlog: ReportingBacklog, stored: StoredWriter, holder: str, *, is_first: bool
) -> StoredWriter:
    """Record the next load; return the writer, which has no load if none is due or BigQuery's limits forbid one.

    `is_first`: whether it is the first load of this call of `write_reporting_tables`. If the last load is too recent,
    the first load is left to a later run; a further load waits for the rest of SECONDS_BETWEEN_LOADS.
    """
    writer, rows, names = stored.writer, StatusRows(services.store).read(), backlog.names()[:ROWS_PER_LOAD]
    status_digest = digest(to_json(rows)) if rows else None
    if status_digest == writer.status_digest and services.warehouse.table(STATUS_TABLE) is not None:
        status_digest = None
    if status_digest is None and not names:
        return stored
    since_last = SECONDS_BETWEEN_LOADS
    if writer.begun_at is not None:
        since_last = (services.now() - writer.begun_at).total_seconds()
    if 0 <= since_last < SECONDS_BETWEEN_LOADS:  # less than 0: another worker's clock is ahead
        if is_first:
            return _postpone(services, stored, f"the tables were written {since_last:.1f} s ago")
        time.sleep(SECONDS_BETWEEN_LOADS - since_last)
    if writer.loads_allowed(services.now()) < 1:
        return _postpone(services, stored, "BigQuery's daily limit of loads into one table is nearly reached")
    load = ReportingLoad(secrets.token_hex(8), holder, services.now(), status_digest, tuple(names))
    return backlog.replace_writer(writer.begin(load), expected_object_generation=stored.object_generation)


def _postpone(services: Services, stored: StoredWriter, why: str) -> StoredWriter:
    """Leave the rows to the next publish or watchdog run. Returns the writer as it is stored."""
    services.log(f"the next publish or watchdog run writes the reporting tables: {why}")
    return stored


def _start(services: Services, backlog: ReportingBacklog, load: ReportingLoad) -> None:
    """Start the jobs. A failure is left to `_reconcile_load`, which asks BigQuery for what happened."""
    with best_effort(services, "a load of the reporting tables did not start"):
        if load.status_digest is not None:
            rows = [status_row(row) for row in StatusRows(services.store).read()]
            services.warehouse.start_load(load.status_job, STATUS_TABLE, status_schema(), rows, append=False)
        if load.ledger_rows:
            rows = list(backlog.rows(load.ledger_rows).values())
            services.warehouse.start_load(load.ledger_job, LEDGER_TABLE, ledger_schema(), rows, append=True)


def _reconcile_load(services: Services, backlog: ReportingBacklog, stored: StoredWriter) -> tuple[StoredWriter, bool]:
    """End the unfinished load: record its outcome. Returns the writer without a load, and whether all rows were loaded.

    Rows that were appended leave the backlog; the other rows stay. Raises LostRace, and TimeoutError when a job still
    runs.
    """
    load = stored.writer.load
    if load is None:
        return stored, True
    writer, is_loaded = replace(stored.writer, load=None), True
    if load.status_digest is not None:
        is_loaded = _succeeded(services, load.status_job)
        _describe(services, STATUS_TABLE, STATUS_DESCRIPTION, STATUS_COLUMNS)
        fails_since = None if is_loaded else writer.status_fails_since or load.begun_at
        status_digest = load.status_digest if is_loaded else None
        writer = replace(writer, status_digest=status_digest, status_fails_since=fails_since)
    if load.ledger_rows:
        if _succeeded(services, load.ledger_job):
            backlog.remove(load.ledger_rows)
            _describe(services, LEDGER_TABLE, LEDGER_DESCRIPTION, LEDGER_COLUMNS)
        else:
            is_loaded = False
    return backlog.replace_writer(writer, expected_object_generation=stored.object_generation), is_loaded


def _describe(services: Services, table: str, description: str, columns: dict[str, str]) -> None:
    """Describe a table. A failure does not affect the table's rows."""
    with best_effort(services, f"table [{table}] is not described until its next load"):
        services.warehouse.alterations.describe_table(table, description, columns)


def _succeeded(services: Services, job_id: str) -> bool:
    """Whether the job succeeded. Raises TimeoutError when it has not ended in time.

    A job that does not exist is fenced, because a writer that only seems dead could still start it.
    """
    services.warehouse.fence_job_id(job_id)
    (job,) = services.warehouse.wait_for_jobs([job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)
    if job.error is not None:
        services.log(f"BigQuery job [{job_id}] failed: {job.error}", level=logging.WARNING)
    return job.error is None
