"""Runner `cluster` without a cluster name: creates a Dataproc cluster for each run and deletes it afterwards.

The task deletes the cluster when it sees that the run has finished. If the task does not, Dataproc deletes the cluster
when it is idle, and at the latest at the end of its lifetime (the run's timeout plus _MAX_CREATION_S).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from dedup_clone.orchestration.runners.cloud_calls import call_options, name_of, translate_errors
from dedup_clone.orchestration.runners.cluster import ClusterRunner
from dedup_clone.orchestration.runners.error_hints import ErrorHints
from dedup_clone.orchestration.runners.spark_run import CONSOLE, SparkJobSpec, SparkRun, SparkRunState
from dedup_clone.settings.spark_settings import SparkSettings

if TYPE_CHECKING:
    from google.cloud.dataproc_v1 import Cluster, ClusterControllerClient, JobControllerClient

_MAX_CREATION_S = 900  # the time that the creation of a cluster may take; a part of the cluster's lifetime
_CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_MIN_WORKERS = 2  # the service creates no cluster with one worker, and a single node would be too small
# States of a cluster (Dataproc's REST reference, ClusterStatus.State). In all other states it is being made ready.
_ACCEPTS_JOBS = ("RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE")
_UNUSABLE = ("ERROR", "DELETING", "STOPPING", "STOPPED")


class EphemeralClusterRunner:
    """Clusters and jobs of one project and region. A run, its job and its cluster have the same name."""

    def __init__(
        self,
        clusters: Callable[[], ClusterControllerClient],
        jobs: Callable[[], JobControllerClient],
        project: str,
        settings: SparkSettings,
    ) -> None:
        self._clusters = clusters
        self._jobs = ClusterRunner(jobs, project, settings, cluster_of_run=lambda run_name: run_name)
        self._project = project
        self._settings = settings
        self._hints = ErrorHints(project, settings)
        self._location = {"project_id": project, "region": settings.region or ""}

    def get_run(self, name: str) -> SparkRun | None:
        job = self._jobs.get_run(name)
        if job is not None:
            return job
        cluster = self._cluster(name)
        if cluster is None:
            return None
        query = f"region={self._location['region']}&project={self._project}"
        run_url = f"{CONSOLE}/dataproc/clusters/{name}/monitoring?{query}"
        state = name_of(cluster.status.state)
        if state in _ACCEPTS_JOBS:
            return SparkRun(name, SparkRunState.READY, "", {"run": run_url})
        if state in _UNUSABLE:
            reason = cluster.status.detail or f"cluster [{name}] is {state} before its job was submitted"
            return SparkRun(name, SparkRunState.FAILED, reason, {"run": run_url})
        return SparkRun(name, SparkRunState.PREPARING, "", {"run": run_url})

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        """Creates the run's cluster. Called again when the run is READY, it submits the job to that cluster."""
        from google.api_core.exceptions import AlreadyExists

        cluster = self._cluster(name)
        if cluster is not None:
            if name_of(cluster.status.state) in _ACCEPTS_JOBS:
                self._jobs.submit(name, spec)
            return
        request = {**self._location, "cluster": cluster_of(spec, self._settings, project=self._project, name=name)}
        with translate_errors(self._hints, f"Cluster [{name}]", ignored=AlreadyExists):  # an earlier try created it
            self._clusters().create_cluster(request, **call_options())

    def cancel(self, name: str) -> None:
        """Deletes the cluster first, so that no cluster stays if the Airflow worker dies before it cancels the job."""
        self.clean_up(name)
        self._jobs.cancel(name)

    def clean_up(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        cluster = self._cluster(name)
        if cluster is None or name_of(cluster.status.state) == "DELETING":
            return
        with translate_errors(self._hints, f"Cluster [{name}]", ignored=NotFound):  # deleted meanwhile
            self._clusters().delete_cluster({**self._location, "cluster_name": name}, **call_options())

    def _cluster(self, name: str) -> Cluster | None:
        from google.api_core.exceptions import NotFound

        cluster = None
        with translate_errors(self._hints, f"Cluster [{name}]", ignored=NotFound):
            cluster = self._clusters().get_cluster({**self._location, "cluster_name": name}, **call_options())
        return cluster


def cluster_of(spec: SparkJobSpec, settings: SparkSettings, *, project: str, name: str) -> dict[str, Any]:
    """The cluster in the API's format: workers for `spec.executors` executors, no public address, component gateway."""
    cluster = settings.cluster
    cores = int(cluster.machine_type.rsplit("-", 1)[1])
    workers = max(_MIN_WORKERS, ceil(spec.executors * spec.executor_cores / cores))
    machine = {"machine_type_uri": cluster.machine_type, "disk_config": {"boot_disk_size_gb": cluster.disk_gb}}
    network = {
        "service_account": settings.service_account,
        "subnetwork_uri": settings.subnetwork,
        "tags": list(settings.network_tags) or None,
    }
    config: dict[str, Any] = {
        "gce_cluster_config": {
            "internal_ip_only": True,
            "service_account_scopes": [_CLOUD_PLATFORM_SCOPE],  # the roles of the service account limit the access
            **{k: v for k, v in network.items() if v is not None},
        },
        "master_config": {"num_instances": 1, **machine},
        "worker_config": {"num_instances": workers, **machine},
        "software_config": {"image_version": cluster.image_version},
        "lifecycle_config": {
            "idle_delete_ttl": {"seconds": cluster.idle_delete_minutes * 60},
            "auto_delete_ttl": {"seconds": spec.timeout_s + _MAX_CREATION_S},
        },
        "endpoint_config": {"enable_http_port_access": True},
    }
    if settings.staging_bucket:  # else the service creates two buckets, to which a limited account may not write
        config["config_bucket"] = config["temp_bucket"] = settings.staging_bucket
    return {"project_id": project, "cluster_name": name, "labels": spec.dataproc_labels, "config": config}
