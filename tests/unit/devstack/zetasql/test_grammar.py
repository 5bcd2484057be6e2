"""Google's grammar, and what is said where it cannot be had."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from devstack.zetasql.grammar import running_grammar
from devstack.zetasql.install import ZetaSqlUnavailable, install


def test_a_syntax_error_is_located() -> None:
    try:
        install()
    except ZetaSqlUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with running_grammar() as grammar:
        assert grammar.check("SELECT 1") is None
        assert str(grammar.check("CREATE TABLE a CLON b")).startswith("1:16: Syntax error")


def test_missing_npm_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ZetaSqlUnavailable, match="npm is missing"):
        install(tmp_path)
