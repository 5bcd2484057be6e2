"""Stores the records of jobs, each as one JSON file, and ends those that had not ended when the process was killed.

A job id can be used once per project and location. An unfinished job counts as succeeded if a table version contains
its commit, otherwise as failed. A script that had not ended has failed; its statements may have succeeded.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bigquery_standin.atomic_files import JsonFiles
from bigquery_standin.bigquery_errors import BackendError, Duplicate, Invalid, InvalidQuery, NotFound, StandInError
from bigquery_standin.sql.type_parser import TableName
from bigquery_standin.storage.access import DEFAULT_USER
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import DatasetId, TableId

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

    def dataset_id(self, name: TableName) -> DatasetId:
        """The dataset of a table in the job's SQL. Raises InvalidQuery for a name without a dataset."""
        if name.dataset is None:
            raise InvalidQuery(f'Table "{name.table}" must be qualified with a dataset (e.g. dataset.table)')
        return DatasetId(name.project or self.project, name.dataset)

    def table(self, name: TableName) -> TableId:
        dataset = self.dataset_id(name)
        return TableId(dataset.project, dataset.dataset, name.table)

    def with_destination(self, table: TableId | None) -> JobRecord:
        """The record with the table that has the query's rows, unless the client has named one."""
        if table is None or self.configuration["query"].get("destinationTable"):  # clients send null for no table
            return self
        query = {**self.configuration["query"], "destinationTable": table.to_api()}
        return replace(self, configuration={**self.configuration, "query": query})

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


def recover_jobs(store: JobStore, catalog: Catalog) -> None:
    """End all jobs that are stored as running or pending."""
    unfinished = [record for record in store.all() if record.state != DONE]
    if not unfinished:
        return
    oldest_us = min(record.created_us for record in unfinished)
    committed = {
        version.job.key: (table, version)
        for table, history in catalog.histories()
        for version in history.versions_since(oldest_us)
        if version.job is not None
    }
    for record in unfinished:
        table, version = committed.get(record.key, (None, None))
        ended = replace(record, state=DONE, started_us=record.started_us or record.created_us)
        if version is None or version.job is None:
            error = BackendError(
                f"Job {record.key} was under way when the stand-in stopped: run it again under a new job id."
            )
            store.save(replace(ended, ended_us=catalog.clock.now_us(), error=error_proto(error)))
            continue
        statistics: Mapping[str, Any] = version.job.statistics
        has_rows = statistics.get("query", {}).get("statementType") in ("SELECT", "CREATE_TABLE_AS_SELECT")
        ended = replace(ended, ended_us=version.committed_us, statistics=statistics)
        store.save(ended.with_destination(table if has_rows else None))
