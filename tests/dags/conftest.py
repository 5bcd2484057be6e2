"""The DAGs as Airflow parses them, once, with the local profile and an Airflow home of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAGS = Path(__file__).parents[2] / "dags"

# Airflow reads these when it is first imported, so they are set before any test module imports it.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))
os.environ["DEDUP_CLONE_PROFILE"] = "local"
os.environ.setdefault("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")


@pytest.fixture(scope="session")
def bag() -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(DAGS))
