"""Runs third-party programs, such as dbt, from `.venv-foreign` with the addresses of the local servers."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.local_servers import REPOSITORY

PROJECT = "local-dev"
USER = "foreign@example.com"  # also the token: to the stand-in, a token is the caller's e-mail address
BIN = REPOSITORY / ".venv-foreign" / "bin"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Servers:
    """The addresses, as host:port, of the stand-in and of the object store."""

    bigquery: str
    storage: str


def run_program(servers: Servers, folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder`, and return its exit code and output. `variables`: of its environment.

    Raises subprocess.TimeoutExpired after TIMEOUT_S.
    """
    environment = {
        **os.environ,
        "BIGQUERY_EMULATOR_HOST": f"http://{servers.bigquery}",
        "STORAGE_EMULATOR_HOST": f"http://{servers.storage}",
        "HOME": str(folder),
        **variables,
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def run_steps(
    servers: Servers, folder: Path, python: Path, script: str, *arguments: str, **variables: str
) -> dict[str, str]:
    """Run a script that prints a line with `steps ` and a JSON object. Returns the object: a text for each step's name.

    `python`: the interpreter. `script`: Python code. `variables`: of its environment. Raises AssertionError, with the
    output, if the script prints no such line.
    """
    done = run_program(servers, folder, str(python), "-c", script, *arguments, **variables)
    lines = [line for line in done.stdout.splitlines() if line.startswith("steps ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    steps: dict[str, str] = json.loads(lines[-1].removeprefix("steps "))
    return steps


def dbt_profile(servers: Servers, **dataset_by_target: str) -> str:
    """The text of dbt's profiles.yml for the profile `shop`.

    `dataset_by_target`: the dataset of each of dbt's targets, the first of which is the default.
    """
    outputs = {
        target: {
            "type": "bigquery",
            "method": "oauth-secrets",
            "token": USER,
            "project": PROJECT,
            "dataset": dataset,
            "location": "US",
            "threads": 2,
            "job_retries": 0,
            "job_execution_timeout_seconds": 120,
            "api_endpoint": f"http://{servers.bigquery}",
        }
        for target, dataset in dataset_by_target.items()
    }
    return json.dumps({"shop": {"target": next(iter(outputs)), "outputs": outputs}})


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write files below `folder`. `files`: the text of each file, by its path."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run_dbt(servers: Servers, project: Path, *arguments: str) -> dict[str, tuple[str, str]]:
    """Run dbt, and return the status and message of each node, by its name.

    Raises RuntimeError, with the output, if dbt ran no node.
    """
    done = run_program(servers, project, str(BIN / "dbt"), *arguments, DBT_SEND_ANONYMOUS_USAGE_STATS="0")
    results = project / "target" / "run_results.json"
    if not results.exists():
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
    found: list[dict[str, Any]] = json.loads(results.read_text())["results"]
    results.unlink()
    return {result["unique_id"].split(".")[2]: (result["status"], result["message"] or "") for result in found}
