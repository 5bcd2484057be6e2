"""Writes jobs as the API's job resources, and the HTTP error of a request for the results of a failed job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bigquery_standin.bigquery_errors import HTTP_STATUS, StandInError
from bigquery_standin.jobs.job_store import JobRecord
from bigquery_standin.rest.table_resource import etag_of


class FailedJob(StandInError):
    """A job's error as the response to a request for its results."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.reason = error["reason"]

    @property
    def http_status(self) -> int:
        """The HTTP status of the error's reason, but at least 400: a cancelled job's is 200, which means success."""
        return max(400, HTTP_STATUS.get(self.reason, 400))


def job_reference(record: JobRecord) -> dict[str, str]:
    return {"projectId": record.project, "jobId": record.job_id, "location": record.location}


def job_resource(record: JobRecord, base_url: str) -> dict[str, Any]:
    status: dict[str, Any] = {"state": record.state}
    if record.error is not None:
        status |= {"errorResult": record.error, "errors": [record.error]}
    resource: dict[str, Any] = {
        "kind": "bigquery#job",
        "id": record.key,
        "selfLink": f"{base_url}bigquery/v2/projects/{record.project}/jobs/{record.job_id}?location={record.location}",
        "user_email": record.user,
        "jobReference": job_reference(record),
        "configuration": record.configuration,
        "statistics": _statistics(record),
        "status": status,
    }
    return resource | {"etag": etag_of(resource)}


def _statistics(record: JobRecord) -> dict[str, Any]:
    statistics: dict[str, Any] = {"creationTime": str(record.created_us // 1000)}
    if record.started_us is not None:
        statistics["startTime"] = str(record.started_us // 1000)
    if record.ended_us is not None:
        statistics["endTime"] = str(record.ended_us // 1000)
        started_us = record.started_us or record.ended_us
        statistics["finalExecutionDurationMs"] = str((record.ended_us - started_us) // 1000)
    if record.parent_job_id is not None:
        statistics["parentJobId"] = record.parent_job_id
    return statistics | dict(record.statistics)
