"""Jobs as the API's resources, and a failed job as the HTTP error that BigQuery answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devstack.bigquery.errors import StandInError
from devstack.bigquery.jobs.record import JobRecord
from devstack.bigquery.rest.resources import etag_of

USER = "stand-in@local.invalid"

# Source: "Error messages" of the BigQuery documentation.
HTTP_STATUS = {
    "backendError": 503,
    "bytesBilledLimitExceeded": 400,
    "duplicate": 409,
    "internalError": 500,
    "invalid": 400,
    "invalidQuery": 400,
    "notFound": 404,
    "notImplemented": 501,
    "quotaExceeded": 403,
    "rateLimitExceeded": 403,
    "resourceInUse": 400,
    "resourcesExceeded": 400,
    "standInFailed": 500,
    "stopped": 200,
}


class FailedJob(StandInError):
    """A job's error as the answer to a request for its results."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.reason = error["reason"]  # type: ignore[misc]  # per job, not per class
        # A stopped job's 200 would read as success.
        self.http_status = max(400, HTTP_STATUS.get(self.reason, 400))  # type: ignore[misc]


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
        "user_email": USER,
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
