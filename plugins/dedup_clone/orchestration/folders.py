"""Where the deployment laid things: next to `dags/` in the repository, below it on Managed Airflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError


@dataclass(frozen=True)
class Folders:
    """`sql` is below dags/ where only dags/ and plugins/ are synced; `spark_jobs` exists where Spark runs locally.

    `spark_code`: where the deployment notes which Spark code belongs to these DAGs; the file exists where it runs
    elsewhere.
    """

    feeds: Path
    profiles: Path
    sql: Path
    spark_jobs: Path
    spark_code: Path
    plugins: Path


def find_folders(dags: Path) -> Folders:
    """Raises ConfigurationError when the SQL files are nowhere."""
    candidates = [dags / "sql", dags.parent / "sql"]
    sql = next((path for path in candidates if path.is_dir()), None)
    if sql is None:
        raise ConfigurationError(f"SQL files are in none of {[str(c) for c in candidates]}: deploy sql/ as dags/sql/.")
    return Folders(
        feeds=dags / "feeds",
        profiles=dags / "profiles",
        sql=sql,
        spark_jobs=Path(os.environ.get("DEDUP_CLONE_SPARK_JOBS", dags.parent / "spark_jobs")),
        spark_code=dags / "spark_code.json",
        plugins=Path(__file__).resolve().parents[2],
    )
