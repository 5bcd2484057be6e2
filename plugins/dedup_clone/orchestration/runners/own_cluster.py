"""Runner `cluster` without a cluster's name: one is made for each run, and deleted when the run is over.

Whoever finds the run over deletes its cluster. Should nobody be left to do so, the cluster deletes itself when it is
idle, and at the latest when the run's time is up.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from dedup_clone.orchestration.runners.advice import Adviser
from dedup_clone.orchestration.runners.cloud_calls import briefly, calling
from dedup_clone.orchestration.runners.cluster import ClusterRuns
from dedup_clone.orchestration.runners.spark_run import CONSOLE, RunState, SparkOrder, SparkRun
from dedup_clone.settings.spark import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import Cluster, ClusterControllerClient, JobControllerClient

_START_S = 900  # what making a cluster may take, on top of the run's own time
_ALL_THAT_ROLES_ALLOW = "https://www.googleapis.com/auth/cloud-platform"
_FEWEST_WORKERS = 2  # the service makes no smaller cluster


class OwnClusterRuns:
    """Clusters and jobs of one project and region. A run, its job and its cluster have the same name."""

    def __init__(
        self,
        clusters: Callable[[], ClusterControllerClient],
        jobs: Callable[[], JobControllerClient],
        project: str,
        settings: SparkSettings,
    ) -> None:
        self._clusters = clusters
        self._jobs = ClusterRuns(jobs, project, settings, lambda name: name)
        self._project = project
        self._settings = settings
        self._adviser = Adviser(project, settings)
        self._place = {"project_id": project, "region": settings.region or ""}

    def look(self, name: str) -> SparkRun | None:
        job = self._jobs.look(name)
        if job is not None:
            return job
        cluster = self._cluster(name)
        if cluster is None:
            return None
        page = f"{CONSOLE}/dataproc/clusters/{name}/monitoring?region={self._place['region']}&project={self._project}"
        state = cluster.status.state.name
        if state == "RUNNING":
            return SparkRun(name, RunState.READY, "", {"run": page})
        if state in ("ERROR", "ERROR_DUE_TO_UPDATE", "DELETING", "STOPPING", "STOPPED"):
            why = cluster.status.detail or f"cluster [{name}] is {state} before its job was submitted"
            return SparkRun(name, RunState.FAILED, why, {"run": page})
        return SparkRun(name, RunState.PREPARING, "", {"run": page})

    def submit(self, name: str, order: SparkOrder) -> None:
        from google.api_core.exceptions import AlreadyExists

        cluster = self._cluster(name)
        if cluster is not None:
            if cluster.status.state.name == "RUNNING":
                self._jobs.submit(name, order)
            return
        request = {
            **self._place,
            "cluster": cluster_of(order, self._settings, project=self._project, name=name),
        }
        with calling(self._adviser, f"Cluster [{name}]", AlreadyExists):  # made by a call whose answer was lost
            self._clusters().create_cluster(request, **briefly())

    def cancel(self, name: str) -> None:
        """The cluster goes first: should the worker die in between, no cost is left behind."""
        self.clean(name)
        self._jobs.cancel(name)

    def clean(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        cluster = self._cluster(name)
        if cluster is None or cluster.status.state.name == "DELETING":
            return
        with calling(self._adviser, f"Cluster [{name}]", NotFound):  # somebody else was faster
            self._clusters().delete_cluster({**self._place, "cluster_name": name}, **briefly())

    def _cluster(self, name: str) -> Cluster | None:
        from google.api_core.exceptions import NotFound

        cluster = None
        with calling(self._adviser, f"Cluster [{name}]", NotFound):
            cluster = self._clusters().get_cluster({**self._place, "cluster_name": name}, **briefly())
        return cluster


def cluster_of(order: SparkOrder, settings: SparkSettings, *, project: str, name: str) -> dict[str, Any]:
    """The cluster as the API names it: workers for all executors, private addresses, Spark's pages by its gateway."""
    own = settings.cluster
    cores = int(own.machine_type.rsplit("-", 1)[1])
    workers = max(_FEWEST_WORKERS, ceil(order.executors * order.executor_cores / cores))
    machine = {"machine_type_uri": own.machine_type, "disk_config": {"boot_disk_size_gb": own.disk_gb}}
    network = {
        "service_account": settings.service_account,
        "subnetwork_uri": settings.subnetwork,
        "tags": list(settings.network_tags) or None,
    }
    config: dict[str, Any] = {
        "gce_cluster_config": {
            "internal_ip_only": True,
            "service_account_scopes": [_ALL_THAT_ROLES_ALLOW],
            **{k: v for k, v in network.items() if v is not None},
        },
        "master_config": {"num_instances": 1, **machine},
        "worker_config": {"num_instances": workers, **machine},
        "software_config": {"image_version": own.image_version},
        "lifecycle_config": {
            "idle_delete_ttl": {"seconds": own.idle_delete_minutes * 60},
            "auto_delete_ttl": {"seconds": order.limit_s + _START_S},
        },
        "endpoint_config": {"enable_http_port_access": True},
    }
    if settings.staging_bucket:
        config["config_bucket"] = settings.staging_bucket
    return {"project_id": project, "cluster_name": name, "labels": dict(order.labels), "config": config}
