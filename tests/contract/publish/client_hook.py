"""Replaces Airflow's BigQuery hook by one that uses a test's client."""

from __future__ import annotations

from typing import Any

from google.cloud.bigquery import LoadJob, QueryJob

from testkit.feed_on_stand_in import FeedOnStandIn


class ClientHook:
    """The two methods of BigQueryHook that the operator calls. `inserted`: the ids of the inserted jobs."""

    labels: dict[str, str] | None = None

    def __init__(self, world: FeedOnStandIn) -> None:
        self._client = world.bigquery
        self.inserted: list[str] = []

    def insert_job(self, *, configuration: dict[str, Any], project_id: str, job_id: str, **_: Any) -> Any:
        self.inserted.append(job_id)
        reference = {"projectId": project_id, "jobId": job_id, "location": "US"}
        kind = LoadJob if "load" in configuration else QueryJob
        job = kind.from_api_repr({"jobReference": reference, "configuration": configuration}, self._client)
        job._begin()
        return job

    def get_job(self, *, job_id: str, **_: Any) -> Any:
        return self._client.get_job(job_id, location="US")
