"""Data sets are made once; a state is published again when the job's code has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import material
from benchmarks.area import code_digest
from benchmarks.records import write_record
from benchmarks.shape import Shape


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []
    monkeypatch.setattr(material, "DATA", tmp_path)
    monkeypatch.setattr("benchmarks.material.subprocess.run", lambda command, **_: commands.append(command))
    return commands


@pytest.mark.parametrize(("code", "made_again"), [(code_digest(), 0), ("of other code", 1)])
def test_a_state_of_other_code_is_made_again(
    started: list[list[str]], tmp_path: Path, code: str, made_again: int
) -> None:
    write_record(tmp_path / Shape(1000).name / "inputs.json", {"code": code})
    material.make_all([Shape(1000), Shape(1000)], lambda text: None)
    assert len(started) == made_again


def test_what_is_missing_is_made(started: list[list[str]]) -> None:
    said: list[str] = []
    material.make_all([Shape(1000), Shape(2000), Shape(1000)], said.append)
    assert len(started) == 1
    assert said[0].startswith("making 2 data sets")
