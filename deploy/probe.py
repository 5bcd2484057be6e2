"""The verb `probe`: runs the conformance tests that are marked as probes on a live project."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from deploy.environment_settings import REPOSITORY


def run(options: argparse.Namespace, dags: Path) -> int:
    """Returns the exit status of pytest."""
    given = {"--project": options.project, "--location": options.location}
    given |= {"--policy-tag": options.policy_tag, "--report": options.report and Path(options.report).resolve()}
    arguments = [word for option, value in given.items() if value for word in (option, str(value))]
    command = [sys.executable, "-m", "pytest", "-q", "tests/conformance", "-m", "probe", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode
