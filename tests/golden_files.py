"""Compares text with golden files. If UPDATE_GOLDEN is set, writes and deletes files instead, and skips the test."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Assert that `text` equals the golden file `name`, a path relative to FOLDER."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        pytest.skip(f"golden file {name} written")
    assert path.exists(), f"golden file [{name}] is missing: run with UPDATE_GOLDEN=1, read it, commit it"
    assert text == path.read_text(), f"golden file [{name}] differs: run with UPDATE_GOLDEN=1 and read the difference"


def assert_no_other_golden(folder: str, names: Collection[str]) -> None:
    """Assert that the golden files below `folder` are exactly `names`, which are paths relative to `folder`."""
    found = {path.relative_to(FOLDER / folder).as_posix() for path in (FOLDER / folder).rglob("*.*")}
    if os.environ.get("UPDATE_GOLDEN"):
        for name in found.difference(names):
            (FOLDER / folder / name).unlink()
        pytest.skip(f"golden files in {folder} that no test compares are deleted")
    assert found == set(names), f"golden files in [{folder}] are missing or too many: run with UPDATE_GOLDEN=1"
