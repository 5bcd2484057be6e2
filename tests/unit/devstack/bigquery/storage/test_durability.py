"""After a kill at any moment, each table is completely the old or the new version."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devstack.bigquery import durable_files
from devstack.bigquery.storage.garbage_collector import remove_unreferenced_segments
from devstack.bigquery.storage.model import TableVersion
from devstack.bigquery.storage.segment_store import SegmentStore
from testkit.local_servers import REPOSITORY
from tests.thoroughness import times
from tests.unit.devstack.bigquery.storage.tables import numbers, open_catalog, table_id

KILLS = times(3, 8)
WRITER = "tests.unit.devstack.bigquery.storage.endless_writer"


def test_kill_at_random_moments_leaves_whole_versions(tmp_path: Path) -> None:
    moments = random.Random(20260131)
    reported: dict[str, int] = {"staging": 0, "target": 0}
    for _ in range(KILLS):
        reported |= _write_until_killed(tmp_path, moments.uniform(0.0, 0.25))
        catalog = open_catalog(tmp_path)
        for name, number in reported.items():
            version = catalog.find(table_id(name))
            assert version is not None
            assert set(numbers(catalog, version)) <= {number, number + 1}
            assert len(set(numbers(catalog, version))) == 1
            assert version.rows == len(numbers(catalog, version)) == 12
        _assert_history_is_whole(tmp_path)


def test_segments_that_a_kill_left_without_a_version_are_removed(tmp_path: Path) -> None:
    _write_until_killed(tmp_path, 0.05)
    catalog = open_catalog(tmp_path)
    remove_unreferenced_segments(catalog)
    named = {segment.file for version in _all_versions(tmp_path) for segment in version.segments()}
    assert catalog.segments.files() == named


def test_folder_of_a_new_file_is_synced_into_its_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash of the machine loses the file with its folder, whose entry was not on the disk yet."""
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_folder", synced.append)
    durable_files.write_durably(tmp_path / "dataset" / "table" / "1.json", b"{}")
    assert set(synced) == {tmp_path, tmp_path / "dataset", tmp_path / "dataset" / "table"}
    synced.clear()
    SegmentStore(tmp_path / "segments")
    assert synced == [tmp_path]


def _write_until_killed(folder: Path, seconds: float) -> dict[str, int]:
    """The last commits that the process reported before its end."""
    writer = subprocess.Popen(
        [sys.executable, "-m", WRITER, str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert writer.stdout is not None
    lines = [writer.stdout.readline(), writer.stdout.readline()]
    time.sleep(seconds)  # kill at a random moment
    writer.kill()
    lines += writer.stdout.readlines()
    writer.wait()
    return {line.split()[0]: int(line.split()[1]) for line in lines if line.endswith("\n")}


def _all_versions(folder: Path) -> list[TableVersion]:
    catalog = open_catalog(folder)
    return [version for _, history in catalog.histories() for version in history.all_versions()]


def _assert_history_is_whole(folder: Path) -> None:
    catalog = open_catalog(folder)
    for version in _all_versions(folder):
        for segment in version.segments():
            assert catalog.segments.path(segment).exists()
