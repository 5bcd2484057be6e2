"""What is said where Google's grammar cannot be had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devstack.zetasql.install import ZetaSqlUnavailable, install


def test_missing_npm_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ZetaSqlUnavailable, match="npm is missing"):
        install(tmp_path)
