"""Stores the records of jobs, each as one JSON file, and ends those that had not ended when the process was killed.

A job id can be used once per project and location. An unfinished job counts as succeeded if a table version contains
its commit, otherwise as failed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bigquery_standin.atomic_files import JsonFiles
from bigquery_standin.bigquery_errors import BackendError, Duplicate, Invalid, NotFound, StandInError
from bigquery_standin.storage.access import DEFAULT_USER
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TableId

KINDS = ("query", "load", "extract")
PENDING, RUNNING, DONE = "PENDING", "RUNNING", "DONE"
JOB_ID = re.compile(r"[\w-]{1,200}", re.ASCII)


@dataclass(frozen=True)
class JobRecord:
    """The record of one job.

    `configuration`: the client's, with what BigQuery adds: `jobType` and the table with a query's rows. `statistics`:
    those in the API's job resource, without times. `error`: the API's ErrorProto; None unless the job has failed.
    """

    project: str
    location: str
    job_id: str
    configuration: Mapping[str, Any]
    created_us: int
    state: str = PENDING
    started_us: int | None = None
    ended_us: int | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    parent_job_id: str | None = None
    request_id: str | None = None  # of jobs.query: a repeated request with this id starts no second job
    user: str = DEFAULT_USER
    applies_changes: bool = False  # a background job of change data capture

    @property
    def key(self) -> str:
        return job_key(self.project, self.location, self.job_id)

    def with_destination(self, table: TableId | Mapping[str, str] | None) -> JobRecord:
        """The record with the table that has the query's rows, unless the client has named one."""
        query = self.configuration["query"]
        if table is None or query.get("destinationTable"):  # clients send null for no table
            return self
        reference = table.to_api() if isinstance(table, TableId) else table
        return replace(self, configuration={**self.configuration, "query": {**query, "destinationTable": reference}})

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if kind in self.configuration)


class JobStore:
    """The records of all jobs. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._files = JsonFiles(folder, JobRecord)
        self._changed = threading.Condition()
        self._records: dict[str, JobRecord] = {}
        self._keys_by_request: dict[tuple[str, str, str], str] = {}
        for record in sorted(self._files.read_all(), key=lambda record: (record.created_us, record.job_id)):
            self._index(record)

    def add(self, record: JobRecord) -> JobRecord:
        """Store a new job and return its record. Raises Invalid for a wrong job id, Duplicate for a used one.

        If an earlier jobs.query had the record's requestId, store nothing and return the record of its job.
        """
        if not JOB_ID.fullmatch(record.job_id):
            raise Invalid(
                f'Invalid job ID "{record.job_id}". Job IDs must be letters, digits, underscores or dashes and at '
                "most 200 characters long here."
            )
        with self._changed:
            if (earlier := self._of_same_request(record)) is not None:
                return earlier
            if record.key in self._records:
                raise Duplicate(f"Already Exists: Job {record.key}")
            self._write(record)
        return record

    def get(self, project: str, location: str, job_id: str) -> JobRecord:
        record = self._records.get(job_key(project, location, job_id))
        if record is None:
            raise NotFound(f"Not found: Job {job_key(project, location, job_id)}")
        return record

    def by_key(self, key: str) -> JobRecord:
        return self._records[key]

    def all(self, project: str | None = None) -> list[JobRecord]:
        """All records, newest first. `project`: None for the jobs of all projects."""
        with self._changed:  # the records are in the order in which the jobs were added
            return [record for record in reversed(self._records.values()) if project in (None, record.project)]

    def save(self, record: JobRecord) -> JobRecord:
        """Store the changed record of a job, and return it."""
        with self._changed:
            self._write(record)
            self._changed.notify_all()
        return record

    def wait(self, key: str, timeout_s: float) -> JobRecord:
        """The job's record when it is DONE, or as it is after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._records[key].state == DONE, timeout_s)
            return self._records[key]

    def _of_same_request(self, record: JobRecord) -> JobRecord | None:
        """The job that an earlier jobs.query with the record's requestId created, or None."""
        if record.request_id is None:
            return None
        key = self._keys_by_request.get((record.project, record.location, record.request_id))
        return self._records.get(key) if key is not None else None

    def _write(self, record: JobRecord) -> None:
        self._files.write(f"{record.project}/{record.location}/{record.job_id}", record)
        self._index(record)

    def _index(self, record: JobRecord) -> None:
        self._records[record.key] = record
        if record.request_id is not None:
            self._keys_by_request[record.project, record.location, record.request_id] = record.key


def job_key(project: str, location: str, job_id: str) -> str:
    return f"{project}:{location}.{job_id}"


def error_proto(error: StandInError) -> dict[str, Any]:
    return {"reason": error.reason, "location": getattr(error, "location", ""), "message": error.message}


@dataclass(frozen=True)
class _CommittedResult:
    """What a job's commit says of the job: its statistics, and when it committed to which table."""

    statistics: Mapping[str, Any]
    committed_us: int
    table: TableId


def recover_jobs(store: JobStore, catalog: Catalog) -> None:
    """End all jobs that are stored as running or pending."""
    unfinished = [record for record in store.all() if record.state != DONE]
    if not unfinished:
        return
    oldest_us = min(record.created_us for record in unfinished)
    results = dict(_committed_results(catalog, since_us=oldest_us))
    for record in unfinished:  # newest first: a script comes after its statements, whose records it needs
        result = results.get(record.key)
        ended = _ended(record, result, catalog.clock.now_us())
        store.save(ended if result is None else _with_destination(ended, result.table, store))


def _committed_results(catalog: Catalog, *, since_us: int) -> Iterator[tuple[str, _CommittedResult]]:
    """Yields the key and the result of each job that committed a table version at `since_us` or later."""
    for table, history in catalog.histories():
        for version in history.versions_since(since_us):
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
