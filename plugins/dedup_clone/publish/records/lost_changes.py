"""Corrects the ledger table if `FEED_changes` has lost rows for good, so that nobody who follows it waits for them."""

from __future__ import annotations

from dedup_clone.publish.attempt_jobs import find_step_job, query_configuration
from dedup_clone.publish.records.ledger_table import LEDGER_TABLE
from dedup_clone.publish.records.reporting_tables import stop_load
from dedup_clone.publish.services import Services
from dedup_clone.state.layout import generation_of
from dedup_clone.state.reporting_backlog import ReportingBacklog

_SQL_FILE = "reporting/forget_changes.sql"


def forget_change_rows(services: Services, attempt: str, *, last: int) -> None:
    """Set `change_rows` to NULL for generation `last` and all earlier ones of the feed. Safe to repeat.

    `attempt`: names the query's job. Rows that the ledger table lacks are corrected before they are loaded. Raises
    JobFailed, TimeoutError when a load of the ledger table does not end, and OutcomeUnknown as `find_step_job` does.
    """
    backlog = ReportingBacklog(services.store)
    for waiting in backlog.waiting(services.feed.feed):
        if (generation_of(waiting.attempt) or 0) <= last:
            backlog.forget_change_rows(waiting.feed, waiting.attempt)
            stop_load(services, waiting.feed, waiting.attempt)
    if services.warehouse.table(LEDGER_TABLE) is None:
        return
    step = f"lost_changes_{last}"
    sql = services.warehouse.render(_SQL_FILE, names=services.names, table=services.feed.table.to_contract())
    parameters = {"feed": ("STRING", services.feed.feed), "last": ("INT64", str(last))}
    job = find_step_job(services, attempt, step)
    services.warehouse.jobs.start(job.job_id, query_configuration(services, step, sql, parameters))
    services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)
