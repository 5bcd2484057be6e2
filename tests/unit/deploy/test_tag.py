"""`python -m deploy tag`: a version is tagged once, from a clean commit whose changelog has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.__main__ import main


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0.0 (2026-11-29)\n")
    for arguments in (["init", "-q"], ["config", "user.name", "t"], ["config", "user.email", "t@example.org"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    commit(tmp_path)
    return tmp_path


def commit(repository: Path) -> None:
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    subprocess.run(["git", "commit", "-qm", "Change"], cwd=repository, check=True)


def tags(repository: Path) -> str:
    return subprocess.run(["git", "tag"], cwd=repository, capture_output=True, text=True, check=True).stdout


def test_a_version_is_tagged_once(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag"], repository / "dags") == 0
    assert tags(repository) == "v1.0.0\n"
    assert main(["tag"], repository / "dags") == 1
    assert "already exists" in capsys.readouterr().err


def test_changed_files_and_a_version_without_changelog_are_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## 0.9.0 (2026-11-29)\n")
    assert main(["tag"], repository / "dags") == 1
    commit(repository)
    assert main(["tag"], repository / "dags") == 1
    assert tags(repository) == ""
