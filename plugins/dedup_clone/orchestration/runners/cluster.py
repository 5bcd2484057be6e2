"""Runner `cluster`: a job on a Dataproc cluster that exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dedup_clone.orchestration.runners.advice import Adviser
from dedup_clone.orchestration.runners.cloud_calls import briefly, calling
from dedup_clone.orchestration.runners.spark_run import CONSOLE, RunState, SparkOrder, SparkRun
from dedup_clone.settings.spark import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import Job, JobControllerClient

_STATES = {
    "DONE": RunState.ENDED_WELL,
    "ERROR": RunState.FAILED,
    "CANCELLED": RunState.CANCELLED,
}


class ClusterRuns:
    """Jobs of one project and region. `cluster` says on which cluster the run of a name is placed."""

    def __init__(
        self,
        client: Callable[[], JobControllerClient],
        project: str,
        settings: SparkSettings,
        cluster: Callable[[str], str],
    ) -> None:
        self._client = client
        self._project = project
        self._settings = settings
        self._adviser = Adviser(project, settings)
        self._cluster = cluster
        self._place = {"project_id": project, "region": settings.region or ""}

    def look(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        job = None
        with calling(self._adviser, f"Job [{name}]", NotFound):
            job = self._client().get_job({**self._place, "job_id": name}, **briefly())
        if job is None:
            return None
        state = _STATES.get(job.status.state.name, RunState.ACTIVE)
        return SparkRun(name, state, job.status.details, self._addresses(name, job))

    def submit(self, name: str, order: SparkOrder) -> None:
        from google.api_core.exceptions import AlreadyExists

        cluster = self._cluster(name)
        request = {
            **self._place,
            "job": job_of(order, project=self._project, name=name, cluster=cluster),
        }
        what = f"Job [{name}] on cluster [{cluster}]"
        with calling(self._adviser, what, AlreadyExists):  # made by a call whose answer was lost
            self._client().submit_job(request, **briefly())

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import FailedPrecondition, NotFound

        with calling(self._adviser, f"Job [{name}]", NotFound, FailedPrecondition):  # never made, or over already
            self._client().cancel_job({**self._place, "job_id": name}, **briefly())

    def clean(self, name: str) -> None:
        """The cluster is somebody else's, and a job that is over costs nothing."""

    def _addresses(self, name: str, job: Job) -> Mapping[str, str]:
        page = f"{CONSOLE}/dataproc/jobs/{name}"
        place = f"region={self._place['region']}&project={self._project}"
        addresses = {"run": f"{page}/monitoring?{place}", "log": f"{page}/monitoring?{place}"}
        tracked = next((app.tracking_url for app in job.yarn_applications if app.tracking_url), "")
        return {**addresses, **({"spark_ui": tracked} if tracked else {})}


def job_of(order: SparkOrder, *, project: str, name: str, cluster: str) -> dict[str, Any]:
    """The job as the API names it. A driver that fails is not restarted there: the task's retry does that."""
    return {
        "reference": {"project_id": project, "job_id": name},
        "placement": {"cluster_name": cluster},
        "labels": dict(order.labels),
        "pyspark_job": {
            "main_python_file_uri": order.main_uri,
            "args": ["--request", order.request_uri],
            "python_file_uris": [order.archive_uri],
            "properties": dict(order.properties),
        },
    }
