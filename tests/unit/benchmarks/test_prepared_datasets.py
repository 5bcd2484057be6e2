"""A data set is prepared once, and again when the job's code has changed."""

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


@pytest.mark.parametrize(("code", "preparations"), [(code_digest(), 0), ("of other code", 1)])
def test_a_parent_of_other_code_is_published_again(
    started: list[list[str]], tmp_path: Path, code: str, preparations: int
) -> None:
    write_record(tmp_path / DatasetShape(1000).name / "input_files.json", {"code": code})
    prepared_datasets.prepare_all([DatasetShape(1000), DatasetShape(1000)], lambda text: None)
    assert len(started) == preparations


def test_missing_data_sets_are_prepared_once_each(started: list[list[str]]) -> None:
    lines: list[str] = []
    prepared_datasets.prepare_all([DatasetShape(1000), DatasetShape(2000), DatasetShape(1000)], lines.append)
    assert len(started) == 1
    assert lines[0].startswith("preparing 2 data sets")
