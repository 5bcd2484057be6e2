"""A peer without figures is a failed peer, and counts that no peer computed are not compared."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import interleaved_rounds
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule
from benchmarks.peers.registry import ROW_NUMBER
from benchmarks.row_counts import RowCounts


def test_a_peer_that_prints_no_measured_run_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "no figures\n")

    monkeypatch.setattr(interleaved_rounds, "RUNS", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    rounds = InterleavedRounds(None, lambda text: None)
    assert rounds.run([PeerSchedule(ROW_NUMBER, (), rounds=2, repeats=1, warm_up=False)]) == []
    assert "printed no measured run" in rounds.failures[ROW_NUMBER]


def test_a_count_that_a_peer_does_not_compute_stays_unknown_in_a_sum() -> None:
    total = RowCounts(new=1, changed=None) + RowCounts(new=2, changed=3)
    assert (total.new, total.changed) == (3, None)
    assert total.agrees_with(RowCounts(new=3, changed=7))
