"""Data sets are made once; a parent is published again when the job's code has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import prepared_datasets
from benchmarks.dataset_shape import DatasetShape
from benchmarks.json_records import write_record
from benchmarks.published_parent import code_digest


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []
    monkeypatch.setattr(prepared_datasets, "DATA", tmp_path)
    monkeypatch.setattr("benchmarks.prepared_datasets.subprocess.run", lambda command, **_: commands.append(command))
    return commands


@pytest.mark.parametrize(("code", "made_again"), [(code_digest(), 0), ("of other code", 1)])
def test_a_parent_of_other_code_is_made_again(
    started: list[list[str]], tmp_path: Path, code: str, made_again: int
) -> None:
    write_record(tmp_path / DatasetShape(1000).name / "input_files.json", {"code": code})
    prepared_datasets.prepare_all([DatasetShape(1000), DatasetShape(1000)], lambda text: None)
    assert len(started) == made_again


def test_what_is_missing_is_made(started: list[list[str]]) -> None:
    said: list[str] = []
    prepared_datasets.prepare_all([DatasetShape(1000), DatasetShape(2000), DatasetShape(1000)], said.append)
    assert len(started) == 1
    assert said[0].startswith("preparing 2 data sets")
