"""The verb `tag`: marks the commit of a version, `v1.0.0` for version 1.0.0, in the local repository."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from dedup_clone import __version__ as VERSION
from dedup_clone.contract.errors import ConfigurationError


def run(options: argparse.Namespace, dags: Path) -> int:
    """Raises ConfigurationError if files have changed, or if CHANGELOG.md has no dated heading of the version."""
    repository, version = dags.parent, VERSION
    if _git(repository, "status", "--porcelain"):
        raise ConfigurationError(f"Files in [{repository}] have changed: commit them, then run the command again.")
    if f"\n## {version} (" not in (repository / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ConfigurationError(f"CHANGELOG.md lacks the heading [## {version} (DATE)]: add what is new in it.")
    _git(repository, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print(f"Tagged v{version}. Publish it with: git push origin v{version}")
    return 0


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigurationError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
