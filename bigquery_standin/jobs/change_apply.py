"""Runs apply jobs, which merge a table's streamed row changes into its rows, in time for the table's max_staleness.

Source: "Stream table updates with change data capture".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bigquery_standin.clock import MICROSECONDS
from bigquery_standin.jobs.change_merge import ChangeMerge
from bigquery_standin.jobs.destination_table import rewritten
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.job_configuration import table_id_from_api
from bigquery_standin.jobs.job_runner import JobContext, JobRunner
from bigquery_standin.jobs.job_store import DONE, JobRecord
from bigquery_standin.jobs.scanned_bytes import ScannedBytes, bytes_with_changes
from bigquery_standin.jobs.statement_run import Outcome
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import CommitInfo, TableId, TableVersion
from bigquery_standin.storage.partitions import partition_ids
from bigquery_standin.storage.segment_store import arrow_schema, conform

BACKGROUND_USER = "bigquery-adminbot@system.gserviceaccount.com"
JOB_ID_PREFIX = "cdc_background_"
RETRY_INTERVAL_US = 30 * MICROSECONDS  # from the failure of a table's job to its next job
# How long `run_due` waits for each job, so that tables are fresh when a test has moved the clock. A slower job runs on.
WAIT_S = 10.0


class ApplyJob:
    """Runs apply jobs. One with pending changes reads the whole table, and is billed for that as an on-demand query."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        """Commits the pending changes and returns the job's statistics. Raises NotFound if the table was dropped."""
        table = table_id_from_api(context.record.configuration["query"]["destinationTable"])
        with context.session() as session, self._catalog.writing(table, context.check_cancelled):
            return self._apply(context, session, table)

    def _apply(self, context: JobContext, session: DuckDbSession, table: TableId) -> Mapping[str, Any]:
        catalog, started, now_us = self._catalog, time.perf_counter(), self._catalog.clock.now_us()
        version = catalog.get(table)
        log, scanned = version.change_log, ScannedBytes({}, 0)
        if log is None:  # the table was replaced after the job was started
            return Outcome("MERGE").statistics()
        partitions, applied = set[str](), log.applied
        rows = arrow_schema(version.settings.schema).empty_table()
        if log.pending:
            scanned = ScannedBytes({table: bytes_with_changes(version)}, 0)
            merge = ChangeMerge(catalog, session, table, version, log)
            for changed_sql in (merge.removed_sql(), merge.upserts_sql()):
                _, changed = session.run(changed_sql)
                partitions |= partition_ids(changed.column(version.settings.partition_column or 0), version.settings)
            rows = conform(session.run(merge.rows_sql(with_buffer=False))[1], version.settings.schema)
            applied = catalog.segments.write(merge.applied(now_us))
        slot_ms = max(1, int((time.perf_counter() - started) * 1000))
        context.check_cancelled()
        change = rewritten(version, rows, partitions, catalog.segments, catalog.next_us(table))
        log = replace(log, pending=(), applied=applied, watermark_us=now_us)
        outcome = Outcome("MERGE", scanned.processed, scanned.billed, slot_ms)
        catalog.commit(table, replace(change, change_log=log), CommitInfo(context.record.key, outcome.statistics()))
        return outcome.statistics()


class ApplySchedule:
    """Starts apply jobs when they are due.

    A job is due when half of a table's max_staleness has passed, so that it ends within the other half (`_is_due`).
    """

    def __init__(self, catalog: Catalog, jobs: JobRunner) -> None:
        self._catalog = catalog
        self._jobs = jobs
        self._last_jobs: dict[TableId, JobRecord] = {}

    def run_due(self) -> None:
        """Starts the jobs that are due, and waits up to WAIT_S for each."""
        started = [
            self._start(table)
            for table, _ in self._catalog.histories()
            if (version := self._catalog.find(table)) is not None
            and _is_due(version, self._catalog.clock.now_us())
            and not self._must_wait(table)
        ]
        for record in started:
            self._jobs.store.wait(record.key, WAIT_S)

    def _must_wait(self, table: TableId) -> bool:
        """Whether the table's last job has not ended, or failed less than RETRY_INTERVAL_US ago."""
        if table not in self._last_jobs:
            return False
        last = self._jobs.store.by_key(self._last_jobs[table].key)
        if last.state != DONE:
            return True
        return last.error is not None and self._catalog.clock.now_us() - (last.ended_us or 0) < RETRY_INTERVAL_US

    def _start(self, table: TableId) -> JobRecord:
        query = {"query": "", "destinationTable": table.to_api(), "useLegacySql": False}
        record = JobRecord(
            project=table.project,
            location=self._catalog.datasets.get(table.dataset_id).location,
            job_id=f"{JOB_ID_PREFIX}{uuid.uuid4().hex}",
            configuration={"jobType": "QUERY", "query": query},
            created_us=self._catalog.clock.now_us(),
            user=BACKGROUND_USER,
            applies_changes=True,
        )
        self._last_jobs[table] = self._jobs.insert(record)
        return self._last_jobs[table]


def _is_due(version: TableVersion, now_us: int) -> bool:
    """Whether rows may have lacked changes for half of max_staleness, and an apply job has something to do.

    A table without max_staleness gets no apply jobs. BigQuery runs them at regular intervals. Here one more job follows
    the one that applied the last change, so that clients see the watermark, the time up to which all changes are
    applied, pass that change. Then no job follows until the next change.
    """
    log, interval_us = version.change_log, (version.settings.max_staleness_s or 0) * MICROSECONDS // 2
    if log is None or not interval_us or now_us - log.stale_since_us < interval_us:
        return False
    return bool(log.pending) or (log.watermark_us or 0) < log.acknowledged_us + interval_us
