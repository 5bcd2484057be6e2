"""What the DAGs of a feed are built from, and what their tasks use at run time.

Google's clients are imported when a task runs, not while DAGs are parsed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from airflow.sdk import Context, DagRunState

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.publish.services import Clients, Services
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import Runner
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.sql_files import TableNames

T = TypeVar("T")


@dataclass(frozen=True)
class DeployedFolders:
    """The locations of the files that the DAGs need, on the machine that parses and runs the DAGs.

    `sql`: the folder is beside dags/ in the repository, but below dags/ on Managed Airflow, which copies only dags/ and
    plugins/ to its workers. `spark_jobs`: the Spark job's sources, which only the runner `local` needs. `spark_code`: a
    JSON file that names the uploaded Spark job for the other runners. `plugins`: the folder that contains this package.
    """

    feeds: Path
    profiles: Path
    sql: Path
    spark_jobs: Path
    spark_code: Path
    plugins: Path

    @property
    def feed_files(self) -> list[Path]:
        """One file for each feed. A name that ends in .yml is listed if it is the feed's only file, to be refused."""
        found = {path.stem: path for suffix in ("yml", "yaml") for path in self.feeds.glob(f"*.{suffix}")}
        return sorted(found.values())


def find_folders(dags: Path) -> DeployedFolders:
    """The folders that belong to the DAGs folder `dags`. Raises ConfigurationError if sql/ is missing."""
    candidates = [dags / "sql", dags.parent / "sql"]
    sql = next((path for path in candidates if path.is_dir()), None)
    if sql is None:
        raise ConfigurationError(f"SQL files are in none of {[str(c) for c in candidates]}: deploy sql/ as dags/sql/.")
    return DeployedFolders(
        feeds=dags / "feeds",
        profiles=dags / "profiles",
        sql=sql,
        spark_jobs=dags.parent / "spark_jobs",
        spark_code=Path(os.environ.get("DEDUP_CLONE_SPARK_CODE", dags / "spark_code.json")),
        plugins=Path(__file__).resolve().parents[2],
    )


@dataclass(frozen=True)
class FeedSetup:
    """What the DAGs and tasks of one feed are built from: its feed file, the profile, and the deployed folders."""

    feed: Feed
    deployment: Deployment
    folders: DeployedFolders

    @property
    def title(self) -> str:
        return self.feed.feed

    def of(self, context: Context) -> FeedSetup:
        """The setup for a run of one of the feed's own DAGs."""
        return self

    @property
    def runner(self) -> Runner:
        """Where the feed's Spark job runs: the feed's own choice, else the profile's."""
        return self.feed.runner or self.deployment.runner

    @property
    def names(self) -> TableNames:
        return TableNames(self.deployment.project, self.deployment.dataset, self.feed.staging, self.feed.target)

    def dag_id(self, dag_name: str) -> str:
        """The id of one of the feed's DAGs. `dag_name`: the name of its DAG file, such as watch or publish."""
        return f"{self.feed.feed}_{dag_name}"


def read_feed_setup(feed_file: Path, folders: DeployedFolders) -> FeedSetup:
    """Read the feed file and the profile.

    Raises ConfigurationError if one of them is invalid, or if the profile lacks a setting that the feed's runner needs.
    """
    if feed_file.suffix != ".yaml":
        raise ConfigurationError(f"Feed file [{feed_file}] is not read: rename it to [{feed_file.stem}.yaml].")
    setup = FeedSetup(read_feed(feed_file), read_deployment(folders.profiles), folders)
    missing = setup.deployment.spark.missing_setting(setup.runner)
    if missing:
        raise ConfigurationError(
            f"Feed [{setup.feed.feed}] asks for runner [{setup.runner}], which needs [spark.{missing}] in the profile: "
            f"set it there, or select another runner."
        )
    return setup


@dataclass(frozen=True)
class FeedOfForm:
    """The feed that the form of a run names, in the DAGs that serve all feeds."""

    folders: DeployedFolders

    @property
    def title(self) -> str:
        """A template of the feed's name."""
        return "{{ params.feed }}"

    @property
    def names(self) -> list[str]:
        """The names of all feeds."""
        return [path.stem for path in self.folders.feed_files]

    def of(self, context: Context) -> FeedSetup:
        """The setup of that feed. Raises ConfigurationError if there is none, or if its file or profile is invalid."""
        return self.named(context["params"]["feed"])

    def named(self, name: str) -> FeedSetup:
        files = {path.stem: path for path in self.folders.feed_files}
        if name not in files:
            raise ConfigurationError(f"There is no feed [{name}]; feeds: {', '.join(files) or 'none'}.")
        return read_feed_setup(files[name], self.folders)


ENVIRONMENT_VARIABLE = "DEDUP_CLONE_ENVIRONMENT"


def open_clients(deployment: Deployment, sql_folder: Path) -> Clients:
    """The clients of a deployment, opened with Airflow's connections."""
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    connection = deployment.google_cloud_connection
    bigquery = BigQueryHook(gcp_conn_id=connection).get_client(
        project_id=deployment.project, location=deployment.location
    )
    return Clients.of(deployment, GCSHook(gcp_conn_id=connection).get_conn(), bigquery, sql_folder)


def open_feed_services(setup: FeedSetup, clients: Clients | None = None) -> Services:
    """The services of one feed. Without `clients`, new clients are opened."""
    clients = clients or open_clients(setup.deployment, setup.folders.sql)
    return clients.of_feed(setup.feed, environment=environment_name(), is_running=dag_run_is_running)


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
    """Whether a task of the run may be running. False for a queued run, and for one that was deleted.

    No task of a queued run is at work. If the run made an attempt before it was queued again, its first task will
    recover that attempt. Raises what `find_in_airflow` raises.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    state = find_in_airflow(lambda: RuntimeTaskInstance.get_dagrun_state(dag_id, run_id))
    return state == DagRunState.RUNNING


def find_in_airflow(question: Callable[[], T]) -> T | None:
    """What Airflow's API for tasks answers to `question`; None if it answers that there is no such run or DAG.

    The API needs no login and no database access. Raises AirflowRuntimeError if it does not answer, so that no live run
    is taken for a dead one, and no open incident about a DAG for ended.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError

    try:
        return question()
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") == HTTPStatus.NOT_FOUND:
            return None
        raise
