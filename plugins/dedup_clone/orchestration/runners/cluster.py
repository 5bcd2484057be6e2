"""Runner `cluster`: submits a job to the Dataproc cluster that the profile names for each run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import SparkUnavailable
from dedup_clone.orchestration.runners.spark_run import (
    CONSOLE,
    SparkJobSpec,
    SparkRun,
    SparkRunState,
    call_options,
    name_of,
)
from dedup_clone.settings.spark_settings import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import Job, JobControllerClient

_STATES = {
    "DONE": SparkRunState.SUCCEEDED,
    "ERROR": SparkRunState.FAILED,
    "CANCELLED": SparkRunState.CANCELLED,
}


class ClusterRunner:
    """Jobs of one project and cluster."""

    def __init__(self, client: Callable[[], JobControllerClient], project: str, settings: SparkSettings) -> None:
        self._client = client
        self._project = project
        self._cluster = settings.cluster.name or ""
        self._location = {"project_id": project, "region": settings.region or ""}

    def get_run(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        try:
            job = self._client().get_job({**self._location, "job_id": name}, **call_options())
        except NotFound:
            return None
        state = _STATES.get(name_of(job.status.state), SparkRunState.ACTIVE)
        lasted_s = _lasted_s(job) if state.is_finished else None
        return SparkRun(name, state, job.status.details, self._log(name), lasted_s=lasted_s)

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        from google.api_core.exceptions import AlreadyExists, FailedPrecondition

        request = {**self._location, "job": job_of(spec, project=self._project, name=name, cluster=self._cluster)}
        try:
            with suppress(AlreadyExists):  # by a request whose answer was lost
                self._client().submit_job(request, **call_options())
        except FailedPrecondition as error:  # such as that the cluster is stopped, which it may not be for long
            raise SparkUnavailable(
                f"Cluster [{self._cluster}] takes no job: {error.message}. The task tries again by itself."
            ) from error

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with suppress(NotFound, FailedPrecondition):  # absent or finished
            self._client().cancel_job({**self._location, "job_id": name}, **call_options())

    def _log(self, name: str) -> str:
        return f"{CONSOLE}/dataproc/jobs/{name}/monitoring?region={self._location['region']}&project={self._project}"


def _lasted_s(job: Job) -> float | None:
    """Seconds from the job's first state to its last; None if the service does not tell their times."""
    times: Any = [s.state_start_time for s in (*job.status_history, job.status) if s.state_start_time]
    return (max(times) - min(times)).total_seconds() if len(times) > 1 else None


def job_of(spec: SparkJobSpec, *, project: str, name: str, cluster: str) -> dict[str, Any]:
    """The job in the API's format. The service does not restart a failed driver; the task's retry starts a new job.

    Dataproc has no time limit for a job on a cluster, so the driver ends itself.
    """
    return {
        "reference": {"project_id": project, "job_id": name},
        "placement": {"cluster_name": cluster},
        "labels": spec.dataproc_labels,
        "pyspark_job": {
            "main_python_file_uri": spec.main_uri,
            "args": ["--request", spec.request_uri, "--end-after-s", str(spec.ttl_s)],
            "python_file_uris": [spec.archive_uri],
            "properties": dict(spec.properties),
        },
    }
