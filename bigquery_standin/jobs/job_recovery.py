"""Ends the jobs that had not ended when the process was killed.

A job counts as succeeded if a table version contains its commit, otherwise as failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bigquery_standin.bigquery_errors import BackendError
from bigquery_standin.jobs.job_store import DONE, JobRecord, JobStore, error_proto
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TableId


@dataclass(frozen=True)
class _CommittedResult:
    """What a job's commit says of the job: its statistics, and when it committed to which table."""

    statistics: Mapping[str, Any]
    committed_us: int
    table: TableId


def recover_jobs(store: JobStore, catalog: Catalog) -> int:
    """End all jobs that are stored as running or pending. Returns how many there were."""
    unfinished = [record for record in store.all() if record.state != DONE]
    if not unfinished:
        return 0
    oldest_us = min(record.created_us for record in unfinished)
    results = dict(_committed_results(catalog, since_us=oldest_us))
    for record in unfinished:  # newest first: a script comes after its statements, whose records it needs
        result = results.get(record.key)
        ended = _ended(record, result, catalog.clock.now_us())
        store.save(ended if result is None else _with_destination(ended, result.table, store))
    return len(unfinished)


def _committed_results(catalog: Catalog, *, since_us: int) -> Iterator[tuple[str, _CommittedResult]]:
    """Yields the key and the result of each job that committed a table version at `since_us` or later."""
    for table, history in catalog.histories():
        for version in history.versions_since(since_us - 1):  # versions_since excludes its argument
            commit = version.job
            if commit is None:
                continue
            yield commit.key, _CommittedResult(commit.statistics, version.committed_us, table)
            if commit.parent_key is not None and commit.parent_statistics is not None:
                yield commit.parent_key, _CommittedResult(commit.parent_statistics, version.committed_us, table)


def _ended(record: JobRecord, result: _CommittedResult | None, now_us: int) -> JobRecord:
    started_us = record.started_us or record.created_us
    if result is not None:
        return replace(
            record, state=DONE, started_us=started_us, ended_us=result.committed_us, statistics=result.statistics
        )
    error = BackendError(
        f"Job {record.key} was under way when the stand-in stopped and had not committed: "
        "run it again under a new job id."
    )
    return replace(record, state=DONE, started_us=started_us, ended_us=now_us, error=error_proto(error))


def _with_destination(record: JobRecord, committed: TableId, store: JobStore) -> JobRecord:
    """The record of a job that succeeded, with the name of the table from which clients read the job's rows.

    `committed`: the table to which the job, or the last statement of a script, has committed.
    """
    kind = _statement_type(record)
    table: TableId | Mapping[str, str] | None = None
    if kind in ("SELECT", "CREATE_TABLE_AS_SELECT"):
        table = committed
    if kind == "SCRIPT":
        children = [child for child in store.all(record.project) if child.parent_job_id == record.job_id]
        here = [child for child in children if child.location == record.location]
        selects = [child for child in here if _statement_type(child) == "SELECT"]
        table = selects[0].configuration["query"].get("destinationTable") if selects else None  # the newest
    return record.with_destination(table)


def _statement_type(record: JobRecord) -> str | None:
    kind: str | None = record.statistics.get("query", {}).get("statementType")
    return kind
