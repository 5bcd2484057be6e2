"""Ends the jobs that were running when the process was killed.

A job succeeded if a table version contains its commit; otherwise it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from devstack.bigquery.bigquery_errors import BackendError
from devstack.bigquery.jobs.job_record import DONE, JobRecord, error_proto
from devstack.bigquery.jobs.job_store import JobStore
from devstack.bigquery.storage.catalog import Catalog


@dataclass(frozen=True)
class _CommittedResult:
    """What a job's commit says of the job: its statistics, and when it committed."""

    statistics: Mapping[str, Any]
    committed_us: int


def recover_jobs(store: JobStore, catalog: Catalog) -> int:
    """End all jobs that are stored as running or pending. Returns how many there were."""
    unfinished = [record for record in store.all() if record.state != DONE]
    if not unfinished:
        return 0
    oldest_us = min(record.created_us for record in unfinished)
    results = dict(_committed_results(catalog, since_us=oldest_us))
    for record in unfinished:
        store.save(_ended(record, results.get(record.key), catalog.clock.now_us()))
    return len(unfinished)


def _committed_results(catalog: Catalog, *, since_us: int) -> Iterator[tuple[str, _CommittedResult]]:
    """Yields the key and the result of each job that committed a table version at `since_us` or later."""
    for _, history in catalog.histories():
        for version in history.versions_since(since_us - 1):  # versions_since excludes its argument
            commit = version.job
            if commit is None:
                continue
            yield commit.key, _CommittedResult(commit.statistics, version.committed_us)
            if commit.parent_key is not None and commit.parent_statistics is not None:
                yield commit.parent_key, _CommittedResult(commit.parent_statistics, version.committed_us)


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
