"""What the DAGs of a feed are built from, and how: its feed file, the profile, and the deployed folders.

An invalid feed file affects only its own DAGs, which show the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, get_parsing_context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.retries import retry_arguments
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import Runner
from dedup_clone.warehouse.sql_files import TableNames

TAG = "dedup-clone"


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
        spark_jobs=Path(os.environ.get("DEDUP_CLONE_SPARK_JOBS", dags.parent / "spark_jobs")),
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


def feed_dag_arguments(setup: FeedSetup, *, task_timeout: timedelta = timedelta(hours=1)) -> dict[str, Any]:
    """Arguments of a DAG that changes a feed.

    `task_timeout`: the execution_timeout of each task; for a dedup task it also limits the time of the Spark run.
    """
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "auto_register": False,  # see build_dags
        "is_paused_upon_creation": False,
        "default_args": {
            "owner": setup.feed.owner,
            **retry_arguments(timedelta(minutes=setup.feed.freshness.sla_minutes)),
            "execution_timeout": task_timeout,
        },
    }


def build_dags(dags: Path, dag_name: str, build: Callable[[FeedSetup], DAG]) -> dict[str, DAG]:
    """Calls `build` for every feed file in `dags/feeds` and returns the DAGs by their ids.

    A worker builds only the DAG of which it is about to run a task. The DAGs need `auto_register=False`: otherwise
    Airflow would also pick up a DAG whose `build` failed halfway. Raises ConfigurationError if sql/ is missing.
    """
    folders, requested = find_folders(dags), get_parsing_context().dag_id
    built = {}
    for feed_file in folders.feed_files:
        dag_id = f"{feed_file.stem}_{dag_name}"
        if requested in (None, dag_id):
            try:
                built[dag_id] = build(read_feed_setup(feed_file, folders))
            except ConfigurationError as error:
                built[dag_id] = _error_dag(dag_id, str(error))
    return built


def _error_dag(dag_id: str, error: str) -> DAG:
    """The DAG in place of one whose feed file or profile is invalid. Its page shows the error, its task raises it."""
    with DAG(
        dag_id,
        description=f"INVALID, does nothing: {' '.join(error.split())}",
        schedule=None,
        tags=[TAG, "configuration error"],
        doc_md=f"**Not valid:**\n\n```\n{error}\n```",
    ) as dag:
        ConfigurationErrorOperator(task_id="show_configuration_error", error=error)
    return dag


class ConfigurationErrorOperator(BaseOperator):
    """Fails with the error of a feed file or of the deployment profile."""

    def __init__(self, *, error: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.error = error

    def execute(self, context: Context) -> None:
        raise ConfigurationError(self.error)
