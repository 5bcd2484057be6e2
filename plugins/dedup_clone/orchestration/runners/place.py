"""Where a feed's Spark runs, in plain values: a task opens it, and so does the trigger that waits in its stead."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.runners.cluster import ClusterRuns
from dedup_clone.orchestration.runners.own_cluster import OwnClusterRuns
from dedup_clone.orchestration.runners.procedure import ProcedureRuns
from dedup_clone.orchestration.runners.serverless import ServerlessRuns
from dedup_clone.orchestration.runners.spark_run import SparkService
from dedup_clone.settings.spark import Runner, SparkSettings

if TYPE_CHECKING:
    from google.cloud.bigquery import Client


@dataclass(frozen=True)
class SparkPlace:
    """`settings` is the profile's section `spark` as JSON."""

    runner: str
    project: str
    location: str
    procedure: str
    google_cloud_connection: str
    sql_folder: str
    settings: str

    def plain(self) -> dict[str, str]:
        return asdict(self)


def runner_of(setup: FeedSetup) -> Runner:
    """The feed's runner, else the profile's."""
    return setup.feed.runner or setup.deployment.runner


def place_of(setup: FeedSetup) -> SparkPlace:
    """Raises ConfigurationError when the profile lacks what the feed's runner needs."""
    deployment, runner = setup.deployment, runner_of(setup)
    missing = deployment.spark.missing_for(runner)
    if missing:
        raise ConfigurationError(
            f"Feed [{setup.feed.feed}] asks for runner [{runner}], which needs [spark.{missing}] in the profile: set "
            f"it there, or take another runner."
        )
    return SparkPlace(
        runner=runner.value,
        project=deployment.project,
        location=deployment.location,
        procedure=f"{deployment.project}.{deployment.dataset}.dedup_clone_{setup.feed.feed}",
        google_cloud_connection=deployment.google_cloud_connection,
        sql_folder=str(setup.folders.sql),
        settings=json.dumps(deployment.spark.model_dump(mode="json")),
    )


def open_service(place: SparkPlace) -> SparkService:
    """The runner's service, by Airflow's connection. Clients are opened by the first call."""
    settings = SparkSettings.model_validate_json(place.settings)
    if place.runner == Runner.BIGQUERY_PROCEDURE:
        return ProcedureRuns(
            cache(lambda: _bigquery(place)),
            project=place.project,
            location=place.location,
            procedure=place.procedure,
            settings=settings,
            sql_folder=Path(place.sql_folder),
        )
    from airflow.providers.google.cloud.hooks.dataproc import DataprocHook

    hook: Any = DataprocHook(gcp_conn_id=place.google_cloud_connection)
    batches = cache(lambda: hook.get_batch_client(region=settings.region))
    jobs = cache(lambda: hook.get_job_client(region=settings.region))
    clusters = cache(lambda: hook.get_cluster_client(region=settings.region))
    if place.runner == Runner.SERVERLESS:
        return ServerlessRuns(batches, place.project, settings)
    name = settings.cluster.name
    if name is None:
        return OwnClusterRuns(clusters, jobs, place.project, settings)
    return ClusterRuns(jobs, place.project, settings, lambda _: name)


def _bigquery(place: SparkPlace) -> Client:
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

    hook = BigQueryHook(gcp_conn_id=place.google_cloud_connection)
    return hook.get_client(project_id=place.project, location=place.location)
