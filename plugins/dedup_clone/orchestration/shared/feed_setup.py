"""The input of a feed's DAGs: its feed file, the deployment profile, and the paths of the deployed files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.warehouse.sql_files import TableNames


@dataclass(frozen=True)
class DeployedFolders:
    """Paths of a deployment.

    `sql` lies beside dags/ in the repository, and below it on Managed Airflow, which syncs only dags/ and plugins/.
    `spark_jobs` exists only where Spark runs locally; elsewhere the file `spark_code` names the uploaded code.
    """

    feeds: Path
    profiles: Path
    sql: Path
    spark_jobs: Path
    spark_code: Path
    plugins: Path

    @property
    def feed_files(self) -> list[Path]:
        return sorted(self.feeds.glob("*.yaml"))


def find_folders(dags: Path) -> DeployedFolders:
    """The paths around the folder `dags`. Raises ConfigurationError when there is no folder of SQL files."""
    candidates = [dags / "sql", dags.parent / "sql"]
    sql = next((path for path in candidates if path.is_dir()), None)
    if sql is None:
        raise ConfigurationError(f"SQL files are in none of {[str(c) for c in candidates]}: deploy sql/ as dags/sql/.")
    return DeployedFolders(
        feeds=dags / "feeds",
        profiles=dags / "profiles",
        sql=sql,
        spark_jobs=Path(os.environ.get("DEDUP_CLONE_SPARK_JOBS", dags.parent / "spark_jobs")),
        spark_code=dags / "spark_code.json",
        plugins=Path(__file__).resolve().parents[3],
    )


@dataclass(frozen=True)
class FeedSetup:
    """One feed in one deployment."""

    feed: Feed
    deployment: Deployment
    folders: DeployedFolders

    @property
    def names(self) -> TableNames:
        return TableNames(self.deployment.project, self.deployment.dataset, self.feed.staging, self.feed.target)

    def dag_id(self, family: str) -> str:
        """`family` is the name of the DAG file: watch, publish, rollback, bootstrap or content_audit."""
        return f"{self.feed.feed}_{family}"


def read_feed_setup(feed_file: Path, folders: DeployedFolders) -> FeedSetup:
    """Raises ConfigurationError when the feed file or the deployment profile is invalid."""
    return FeedSetup(read_feed(feed_file), read_deployment(folders.profiles), folders)
