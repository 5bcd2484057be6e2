"""Compares text with a golden file. With `UPDATE_GOLDEN=1` it writes the file and skips the test instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Assert that `text` equals the golden file `name`."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        pytest.skip(f"golden file {name} written")
    assert path.exists(), f"golden file [{name}] is missing: run with UPDATE_GOLDEN=1, read it, commit it"
    assert text == path.read_text(), f"golden file [{name}] differs: run with UPDATE_GOLDEN=1 and read the difference"
