"""One real stack for the session: fake-gcs-server, the stand-in and Airflow, in a folder of its own, always stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.local_stack import LocalStack

REPOSITORY = Path(__file__).parents[2]


def _stack(command: str, environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "devstack.stack", command], cwd=REPOSITORY, env=environment, check=True)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    local = tmp_path_factory.mktemp("stack") / "local"
    environment = {**os.environ, "DEDUP_CLONE_LOCAL_DIR": str(local)}
    _stack("up", environment)
    try:
        yield LocalStack(REPOSITORY, local)
    finally:
        _stack("down", environment)
