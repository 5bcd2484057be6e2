"""Defines the stored record of a job: its configuration, state, statistics and error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from devstack.bigquery.bigquery_errors import StandInError
from devstack.bigquery.storage.callers import DEFAULT_USER

KINDS = ("query", "load", "extract")
PENDING, RUNNING, DONE = "PENDING", "RUNNING", "DONE"


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
    upload: str | None = None  # name of the file that was sent with the request
    applies_changes: bool = False  # a background job of change data capture

    @property
    def key(self) -> str:
        return job_key(self.project, self.location, self.job_id)

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if kind in self.configuration)


def job_key(project: str, location: str, job_id: str) -> str:
    return f"{project}:{location}.{job_id}"


def error_proto(error: StandInError) -> dict[str, Any]:
    return {"reason": error.reason, "location": getattr(error, "location", ""), "message": error.message}
