"""Runner `serverless`: submits a Dataproc batch for each run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
    from google.cloud.dataproc_v1 import BatchControllerClient

_STATES = {
    "SUCCEEDED": SparkRunState.SUCCEEDED,
    "FAILED": SparkRunState.FAILED,
    "CANCELLED": SparkRunState.CANCELLED,
}


class ServerlessRunner:
    """Batches of one project and region."""

    def __init__(self, client: Callable[[], BatchControllerClient], project: str, settings: SparkSettings) -> None:
        self._client = client
        self._project = project
        self._settings = settings
        self._region = settings.region or ""

    def get_run(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        try:
            batch = self._client().get_batch(name=self._path(name), **call_options())
        except NotFound:
            return None
        state = _STATES.get(name_of(batch.state), SparkRunState.ACTIVE)
        used = batch.runtime_info.approximate_usage.milli_dcu_seconds
        dcu_hours = used / 3.6e6 if used else None
        return SparkRun(name, state, batch.state_message, self._log(name), dcu_hours=dcu_hours)

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        from google.api_core.exceptions import AlreadyExists

        request = {
            "parent": f"projects/{self._project}/locations/{self._region}",
            "batch_id": name,
            "batch": batch_of(spec, self._settings),
        }
        with suppress(AlreadyExists):  # by a request whose answer was lost
            self._client().create_batch(request, **call_options())

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with suppress(NotFound, FailedPrecondition):  # absent or finished
            batch = self._client().get_batch(name=self._path(name), **call_options())
            if name_of(batch.state) not in _STATES:
                self._client().cancel_operation({"name": batch.operation}, **call_options())

    def _path(self, name: str) -> str:
        return f"projects/{self._project}/locations/{self._region}/batches/{name}"

    def _log(self, name: str) -> str:
        query = f'resource.type="cloud_dataproc_batch" resource.labels.batch_id="{name}"'
        return f"{CONSOLE}/logs/query;query={quote(query, safe='')}?project={self._project}"


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
        "labels": spec.dataproc_labels,
        "pyspark_batch": {
            "main_python_file_uri": spec.main_uri,
            "args": ["--request", spec.request_uri],
            "python_file_uris": [spec.archive_uri],
        },
        "runtime_config": {"version": settings.runtime_version, "properties": dict(spec.properties)},
        "environment_config": {"execution_config": {k: v for k, v in execution.items() if v is not None}},
    }
