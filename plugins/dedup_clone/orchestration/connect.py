"""Opens a feed's services through Airflow's connections. Clients are imported when a task runs, not at parse time."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.orchestration.folders import Folders
from dedup_clone.publish.services import Services, open_services
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.sql_files import TableNames


@dataclass(frozen=True)
class FeedSetup:
    """All that the DAGs of one feed are built from."""

    feed: Feed
    deployment: Deployment
    folders: Folders

    @property
    def names(self) -> TableNames:
        return TableNames(self.deployment.project, self.deployment.dataset, self.feed.staging, self.feed.target)

    @property
    def watch_dag_id(self) -> str:
        return f"{self.feed.feed}_watch"

    @property
    def publish_dag_id(self) -> str:
        return f"{self.feed.feed}_publish"

    @property
    def rollback_dag_id(self) -> str:
        return f"{self.feed.feed}_rollback"

    @property
    def bootstrap_dag_id(self) -> str:
        return f"{self.feed.feed}_bootstrap"

    @property
    def content_audit_dag_id(self) -> str:
        return f"{self.feed.feed}_content_audit"


def connect(setup: FeedSetup) -> Services:
    """The services of one feed, for use inside a running task."""
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

    deployment = setup.deployment
    client = BigQueryHook(gcp_conn_id=deployment.google_cloud_connection).get_client(
        project_id=deployment.project, location=deployment.location
    )
    return open_services(
        setup.feed,
        state=open_bucket(deployment, deployment.state_bucket),
        landing=open_bucket(deployment, deployment.landing_bucket),
        warehouse=Warehouse(
            client,
            project=deployment.project,
            dataset=deployment.dataset,
            location=deployment.location,
            sql_folder=setup.folders.sql,
        ),
        job_poll_s=deployment.job_poll_interval_s,
        is_running=run_is_running,
    )


def open_bucket(deployment: Deployment, bucket: str) -> ObjectStore:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    return ObjectStore(GCSHook(gcp_conn_id=deployment.google_cloud_connection).get_conn(), bucket)


def run_is_running(dag_id: str, run_id: str) -> bool:
    """Whether a run may still be at work. A queued run is not: it starts with its first task and heals."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        return RuntimeTaskInstance.get_dagrun_state(dag_id, run_id) == "running"
    except AirflowRuntimeError:
        return False  # the run was deleted
