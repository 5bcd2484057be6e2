"""Google's grammar as a command, and what is said where it cannot be had."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from devstack.zetasql.__main__ import main
from devstack.zetasql.install import ZetaSqlUnavailable, install


def test_command_prints_each_refused_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        install()
    except ZetaSqlUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    good, bad = tmp_path / "good.sql", tmp_path / "bad.sql"
    good.write_text("SELECT 1")
    bad.write_text("CREATE TABLE a CLON b")
    assert main([str(good)]) == 0
    assert main([str(good), str(bad)]) == 1
    assert capsys.readouterr().out.startswith(f"{bad}:1:16: Syntax error")


def test_missing_npm_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ZetaSqlUnavailable, match="npm is missing"):
        install(tmp_path)
