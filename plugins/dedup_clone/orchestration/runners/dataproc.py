"""Runners of Dataproc: `serverless` submits a batch for each run, `cluster` a job to the profile's existing cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import SparkUnavailable
from dedup_clone.orchestration.runners.spark_run import CALL, SparkJobSpec, SparkRun, SparkRunState
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.spark_settings import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import BatchControllerClient, JobControllerClient

# The names of the last states of batches and of jobs; a run in any other state is active.
_LAST_STATES = {
    "SUCCEEDED": SparkRunState.SUCCEEDED,
    "DONE": SparkRunState.SUCCEEDED,
    "FAILED": SparkRunState.FAILED,
    "ERROR": SparkRunState.FAILED,
    "CANCELLED": SparkRunState.CANCELLED,
}


class ServerlessRunner:
    """Batches of the profile's project and region."""

    def __init__(self, client: Callable[[], BatchControllerClient], profile: Deployment) -> None:
        self._client = client
        self._settings = profile.spark
        self._parent = f"projects/{profile.project}/locations/{profile.spark.region}"

    def get_run(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        try:
            batch: Any = self._client().get_batch(name=self._path(name), **CALL)
        except NotFound:
            return None
        used = batch.runtime_info.approximate_usage.milli_dcu_seconds
        dcu_hours = used / 3.6e6 if used else None
        return SparkRun(name, _state(batch.state), batch.state_message, batch.create_time, dcu_hours=dcu_hours)

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        from google.api_core.exceptions import AlreadyExists

        request = {"parent": self._parent, "batch_id": name, "batch": batch_of(spec, self._settings)}
        with suppress(AlreadyExists):  # by a request whose answer was lost
            self._client().create_batch(request, **CALL)

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with suppress(NotFound, FailedPrecondition):  # absent or finished
            batch = self._client().get_batch(name=self._path(name), **CALL)
            if not _state(batch.state).is_finished:
                self._client().cancel_operation({"name": batch.operation}, **CALL)

    def _path(self, name: str) -> str:
        return f"{self._parent}/batches/{name}"


class ClusterRunner:
    """Jobs of the profile's cluster."""

    def __init__(self, client: Callable[[], JobControllerClient], profile: Deployment) -> None:
        self._client = client
        self._cluster = profile.spark.cluster or ""
        self._location = {"project_id": profile.project, "region": profile.spark.region or ""}

    def get_run(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        try:
            job: Any = self._client().get_job({**self._location, "job_id": name}, **CALL)
        except NotFound:
            return None
        state, times = _state(job.status.state), _times(job)
        lasted_s = (max(times) - min(times)).total_seconds() if state.is_finished and len(times) > 1 else None
        return SparkRun(name, state, job.status.details, min(times, default=None), lasted_s=lasted_s)

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        from google.api_core.exceptions import AlreadyExists, FailedPrecondition

        job = _job_of(spec, project=self._location["project_id"], name=name, cluster=self._cluster)
        try:
            with suppress(AlreadyExists):  # by a request whose answer was lost
                self._client().submit_job({**self._location, "job": job}, **CALL)
        except FailedPrecondition as error:  # such as that the cluster is stopped, which it may not be for long
            raise SparkUnavailable(
                f"Cluster [{self._cluster}] takes no job: {error.message}. The task tries again by itself."
            ) from error

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with suppress(NotFound, FailedPrecondition):  # absent or finished
            self._client().cancel_job({**self._location, "job_id": name}, **CALL)


def batch_of(spec: SparkJobSpec, settings: SparkSettings) -> dict[str, Any]:
    """The batch in the API's format. Settings that the profile lacks are left to the service's defaults."""
    execution: dict[str, Any] = {
        "service_account": settings.service_account,
        "subnetwork_uri": settings.subnetwork,
        "network_tags": list(settings.network_tags) or None,
        "ttl": {"seconds": spec.ttl_s},
    }
    # Runtime 3 uses no staging bucket. By default its batches have the credentials of the account that submits them.
    if settings.has_runtime_3:
        execution["authentication_config"] = {"user_workload_authentication_type": "SERVICE_ACCOUNT"}
    else:
        execution["staging_bucket"] = settings.staging_bucket
    return {
        "labels": dict(spec.labels),
        "pyspark_batch": _pyspark(spec),
        "runtime_config": {"version": settings.runtime_version, "properties": dict(spec.properties)},
        "environment_config": {"execution_config": {k: v for k, v in execution.items() if v is not None}},
    }


def _job_of(spec: SparkJobSpec, *, project: str, name: str, cluster: str) -> dict[str, Any]:
    """The job in the API's format. The service does not restart a failed driver; the task's retry starts a new job.

    Dataproc has no time limit for a job on a cluster, so the driver ends itself.
    """
    return {
        "reference": {"project_id": project, "job_id": name},
        "placement": {"cluster_name": cluster},
        "labels": dict(spec.labels),
        "pyspark_job": {
            **_pyspark(spec, "--end-after-s", str(spec.ttl_s)),
            "properties": dict(spec.properties),
        },
    }


def _pyspark(spec: SparkJobSpec, *arguments: str) -> dict[str, Any]:
    return {
        "main_python_file_uri": spec.main_uri,
        "args": ["--request", spec.request_uri, *arguments],
        "python_file_uris": [spec.archive_uri],
    }


def _state(state: Any) -> SparkRunState:
    """The state; a number in place of a state is one that the installed library does not know."""
    return _LAST_STATES.get(getattr(state, "name", ""), SparkRunState.ACTIVE)


def _times(job: Any) -> list[datetime]:
    """When each of the job's states began, as far as the service tells."""
    return [state.state_start_time for state in (*job.status_history, job.status) if state.state_start_time]
