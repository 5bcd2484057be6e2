"""What tasks use at run time: the feed's services, what Airflow knows of runs, and the run's attempt.

Google's clients are imported when a task runs, not while DAGs are parsed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.sdk import Context, DagRunState

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.publish.services import Services, open_services
from dedup_clone.settings.deployment import Deployment
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse

if TYPE_CHECKING:
    from airflow.sdk.exceptions import AirflowRuntimeError

ENVIRONMENT_VARIABLE = "DEDUP_CLONE_ENVIRONMENT"


@dataclass(frozen=True)
class Clients:
    """The buckets and the warehouse of a deployment. They belong to no feed, so that several feeds can share them.

    `bigquery_answers`: whether the warehouse can be asked now.
    """

    state: ObjectStore
    landing: ObjectStore
    warehouse: Warehouse
    bigquery_answers: bool = True


def open_clients(deployment: Deployment, sql_folder: Path) -> Clients:
    """The clients of a deployment, opened with Airflow's connections."""
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

    client = BigQueryHook(gcp_conn_id=deployment.google_cloud_connection).get_client(
        project_id=deployment.project, location=deployment.location
    )
    return Clients(
        state=open_gcs_bucket(deployment.google_cloud_connection, deployment.state_bucket),
        landing=open_gcs_bucket(deployment.google_cloud_connection, deployment.landing_bucket),
        warehouse=Warehouse(
            client,
            project=deployment.project,
            dataset=deployment.dataset,
            location=deployment.location,
            sql_folder=sql_folder,
            organization_views=deployment.organization_views,
        ),
    )


def open_feed_services(setup: FeedSetup, clients: Clients | None = None) -> Services:
    """The services of one feed. Without `clients`, new clients are opened."""
    clients = clients or open_clients(setup.deployment, setup.folders.sql)
    return open_services(
        setup.feed,
        state=clients.state,
        landing=clients.landing,
        warehouse=clients.warehouse,
        job_poll_s=setup.deployment.job_poll_interval_s,
        environment=environment_name(),
        is_running=dag_run_is_running,
    )


def environment_name() -> str:
    """The name of this Airflow environment: the variable DEDUP_CLONE_ENVIRONMENT, or else the address of its pages.

    Raises ConfigurationError if it has neither. An address on this machine counts as none: other environments may have
    it, too.
    """
    from airflow.sdk.configuration import conf

    base_url = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    has_own_address = (urlsplit(base_url).hostname or "localhost") not in ("localhost", "127.0.0.1", "0.0.0.0", "::1")
    name = os.environ.get(ENVIRONMENT_VARIABLE, "").strip() or (base_url if has_own_address else "")
    if not name:
        raise ConfigurationError(
            f"This Airflow environment has no name, by which feeds know who publishes them: set its environment "
            f"variable [{ENVIRONMENT_VARIABLE}] to a name that no other environment has (docs/deploy.md, "
            f"Move feeds to another environment)."
        )
    return name


def open_gcs_bucket(connection: str, gcs_bucket: str) -> ObjectStore:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    return ObjectStore(GCSHook(gcp_conn_id=connection).get_conn(), gcs_bucket)


def dag_run_is_running(dag_id: str, run_id: str) -> bool:
    """Whether a task of the run may be running. False for a queued run.

    No task of a queued run is at work. If the run made an attempt before it was queued again, its first task will
    recover that attempt. Raises AirflowRuntimeError when Airflow's API does not answer, so that no live run is taken
    for a dead one.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        return RuntimeTaskInstance.get_dagrun_state(dag_id, run_id) == DagRunState.RUNNING
    except AirflowRuntimeError as error:
        if is_not_found(error):
            return False  # the run was deleted
        raise


def is_not_found(error: AirflowRuntimeError) -> bool:
    """Whether Airflow's API answered that there is no such run or DAG.

    The same exception is also raised for lost connections and for other errors of the API.
    """
    return (error.error.detail or {}).get("status_code") == 404


def pull_attempt(context: Context, services: Services) -> Attempt:
    """The run's attempt. Raises ContractViolation if its record is gone, or if the run has none."""
    return services.manifests.attempt(pull_attempt_id(context))


def pull_attempt_id(context: Context) -> str:
    """The id of the run's attempt. Raises ContractViolation if the run has none."""
    attempt = find_attempt_id(context)
    if attempt is None:
        raise ContractViolation("This run has no attempt: clear the run from its first task.")
    return attempt


def find_attempt_id(context: Context) -> str | None:
    """The id of the attempt that the run's resolve task returned; None if it returned none."""
    found = context["ti"].xcom_pull(task_ids=_resolve_task_id(context))
    return found if isinstance(found, str) else None


def _resolve_task_id(context: Context) -> str:
    return next(task_id for task_id in context["dag"].task_ids if task_id.startswith("resolve_"))
