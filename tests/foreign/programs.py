"""Runs programs of others in `.venv-foreign`, with the addresses of the local servers."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testkit.local_servers import REPOSITORY

PROJECT = "local-dev"
USER = "foreign@example.com"  # the stand-in takes a token for the caller's address
BIN = REPOSITORY / ".venv-foreign" / "bin"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Servers:
    """The addresses, as host:port, of the stand-in and of the object store."""

    bigquery: str
    storage: str


def run_program(servers: Servers, folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder`, and return its exit code and output."""
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
    """What a script says of each of its steps: it prints one line of JSON that begins with `steps `."""
    done = run_program(servers, folder, str(python), "-c", script, *arguments, **variables)
    lines = [line for line in done.stdout.splitlines() if line.startswith("steps ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    steps: dict[str, str] = json.loads(lines[-1].removeprefix("steps "))
    return steps
