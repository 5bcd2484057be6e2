"""The DAGs of the repository as Airflow parses them, once, and copies of them with changed feed files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAGS = Path(__file__).parents[2] / "dags"
FEEDS = sorted(path.stem for path in (DAGS / "feeds").glob("*.yaml"))
FEED = FEEDS[0]  # for what does not depend on the feed
OF_EACH_FEED = ("publish", "rollback", "watch")
OPERATIONS = ("bootstrap", "erase", "rebuild", "retire")  # one DAG each, whose form names the feed
OF_ALL_FEEDS = (*(f"dedup_clone_{name}" for name in (*OPERATIONS, "content_audit")), "freshness_watchdog")


def copy_dags(folder: Path) -> Path:
    """Copies dags/ and sql/ into `folder` as they are deployed. Returns the copy of dags/."""
    shutil.copytree(DAGS, folder / "dags")
    shutil.copytree(DAGS.parent / "sql", folder / "dags" / "sql")
    return folder / "dags"


def change_yaml(path: Path, **values: Any) -> None:
    """Sets these keys of the file."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


@pytest.fixture(scope="session")
def bag() -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(DAGS))
