"""Runner `serverless`: a Dataproc batch for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dedup_clone.orchestration.runners.advice import Adviser
from dedup_clone.orchestration.runners.cloud_calls import briefly, calling
from dedup_clone.orchestration.runners.spark_run import CONSOLE, RunState, SparkOrder, SparkRun
from dedup_clone.settings.spark import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import Batch, BatchControllerClient


_STATES = {
    "SUCCEEDED": RunState.ENDED_WELL,
    "FAILED": RunState.FAILED,
    "CANCELLED": RunState.CANCELLED,
}
_SHORTEST_TTL_S = 600  # the service takes no shorter one


class ServerlessRuns:
    """Batches of one project and region. `client` opens the API."""

    def __init__(self, client: Callable[[], BatchControllerClient], project: str, settings: SparkSettings) -> None:
        self._client = client
        self._project = project
        self._settings = settings
        self._adviser = Adviser(project, settings)
        self._region = settings.region or ""

    def look(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        batch = None
        with calling(self._adviser, f"Batch [{name}]", NotFound):
            batch = self._client().get_batch(name=self._path(name), **briefly())
        if batch is None:
            return None
        state = _STATES.get(batch.state.name, RunState.ACTIVE)
        return SparkRun(name, state, batch.state_message, self._addresses(name, batch))

    def submit(self, name: str, order: SparkOrder) -> None:
        from google.api_core.exceptions import AlreadyExists

        request = {
            "parent": f"projects/{self._project}/locations/{self._region}",
            "batch_id": name,
            "batch": batch_of(order, self._settings),
        }
        with calling(self._adviser, f"Batch [{name}]", AlreadyExists):  # made by a call whose answer was lost
            self._client().create_batch(request, **briefly())

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with calling(self._adviser, f"Batch [{name}]", NotFound, FailedPrecondition):  # never made, or over meanwhile
            batch = self._client().get_batch(name=self._path(name), **briefly())
            if batch.state.name not in _STATES:
                self._client().cancel_operation({"name": batch.operation}, **briefly())

    def clean(self, name: str) -> None:
        """A batch that is over costs nothing, and its page stays for whoever asks."""

    def _path(self, name: str) -> str:
        return f"projects/{self._project}/locations/{self._region}/batches/{name}"

    def _addresses(self, name: str, batch: Batch) -> Mapping[str, str]:
        endpoints = dict(batch.runtime_info.endpoints)
        log = f'resource.type="cloud_dataproc_batch" resource.labels.batch_id="{name}"'
        addresses = {
            "run": f"{CONSOLE}/dataproc/batches/{self._region}/{name}/summary?project={self._project}",
            "log": f"{CONSOLE}/logs/query;query={quote(log, safe='')}?project={self._project}",
        }
        spark_ui = endpoints.get("Spark UI") or next(iter(endpoints.values()), "")
        return {**addresses, **({"spark_ui": spark_ui} if spark_ui else {})}


def batch_of(order: SparkOrder, settings: SparkSettings) -> dict[str, Any]:
    """The batch as the API names it. Settings that are not given are left to the service's defaults."""
    execution = {
        "service_account": settings.service_account,
        "subnetwork_uri": settings.subnetwork,
        "network_tags": list(settings.network_tags) or None,
        "staging_bucket": settings.staging_bucket,
        "ttl": {"seconds": max(order.limit_s, _SHORTEST_TTL_S)},
    }
    return {
        "labels": dict(order.labels),
        "pyspark_batch": {
            "main_python_file_uri": order.main_uri,
            "args": ["--request", order.request_uri],
            "python_file_uris": [order.archive_uri],
        },
        "runtime_config": {"version": settings.runtime_version, "properties": dict(order.properties)},
        "environment_config": {"execution_config": {k: v for k, v in execution.items() if v is not None}},
    }
