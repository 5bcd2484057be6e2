"""Faults of a test or of the stack, and failed publishes, are in the report of the soak."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.state.ledger import Outcome
from soak import command, region_down
from soak.lifecycle import find_lag_s


def ledger(*records: tuple[Outcome, int, float | None]) -> Any:
    return [SimpleNamespace(outcome=outcome, snapshot_id=number, lag_s=lag_s) for outcome, number, lag_s in records]


def test_a_run_that_an_unexpected_error_ends_is_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any) -> None:
        raise LookupError("no such part")

    monkeypatch.setenv(command.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(command.signal, "signal", lambda *arguments: None)
    monkeypatch.setattr(command, "run_chosen_tests", stop)
    with pytest.raises(LookupError):
        command.main(["markers"])
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["is_good"], report["abort_reason"]) == (False, "LookupError: no such part")


def test_an_unknown_point_is_named_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["all", "--points", "nonsense"], ["kill", "--list", "--points", "nonsense"]):
        with pytest.raises(SystemExit):
            command.parse_arguments(arguments)
        assert "point [nonsense] is unknown" in capsys.readouterr().err


def test_the_lag_of_a_snapshot_is_that_of_its_publish() -> None:
    discarded, published = (Outcome.FAILED, 5, None), (Outcome.PUBLISHED, 5, 12.0)
    assert find_lag_s(ledger(discarded, published, (Outcome.PUBLISHED, 6, 3.0)), 5) == 12.0
    assert find_lag_s(ledger(discarded), 5) is None


def test_a_publish_that_failed_in_an_outage_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def land(feed: str) -> Any:
        return SimpleNamespace(feed=feed, snapshot_id=1, marker_generation=2)

    stack = SimpleNamespace(
        current=lambda feed: SimpleNamespace(intent="held"),
        stop_part=lambda part: None,
        supervisor=SimpleNamespace(start=lambda part: None),
        run_state=lambda feed, run_id: "failed",
        are_healthy=lambda: True,
        tasks=lambda feed, run_id: [],
    )
    monkeypatch.setattr(region_down, "OUTAGE_S", 0.0)
    monkeypatch.setattr(region_down, "find_problems", lambda *arguments: [])
    deliveries: Any = SimpleNamespace(land=land, landed={region_down.EXAMPLE: []})
    (section,) = region_down.run(stack, deliveries)  # type: ignore[arg-type]
    assert [problem.partition("] ")[2] for problem in section.problems] == ["ended as [failed], expected [success]"]
