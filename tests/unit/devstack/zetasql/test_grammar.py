"""Google's grammar as a service, as a command, and what is said where it cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.zetasql.__main__ import main
from devstack.zetasql.grammar import Grammar, GrammarError, running_grammar
from devstack.zetasql.install import ZetaSqlUnavailable, install


@pytest.fixture(scope="module")
def grammar() -> Iterator[Grammar]:
    try:
        install()
    except ZetaSqlUnavailable as error:
        pytest.skip(str(error))
    with running_grammar() as running:
        yield running


def test_script_is_accepted(grammar: Grammar) -> None:
    script = "DECLARE x INT64 DEFAULT 1; IF x = 1 THEN CREATE OR REPLACE TABLE a CLONE b; END IF; ASSERT x = 1 AS 'x';"
    assert grammar.check(script) is None


def test_refusal_names_line_and_column(grammar: Grammar) -> None:
    assert grammar.check("SELECT 1;\n  SELECT 2 FROM;") == GrammarError(2, 16, 'Syntax error: Unexpected ";"')


def test_command_prints_each_refused_file(grammar: Grammar, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
