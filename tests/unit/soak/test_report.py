"""The report contains every result, and calls only a complete run without problems good."""

from __future__ import annotations

import json
from pathlib import Path

from soak.kill_matrix import PointResult
from soak.kill_run import find_job_id
from soak.report import Report, Section, summary_line


def result(*problems: str) -> PointResult:
    return PointResult(
        point="swap.committed:task",
        step="swap",
        victim="task",
        how="the answer is held",
        hit="held POST /jobs of process 7; killed 7",
        recovered_by="Airflow tried swap_target again (try 2)",
        recovered_s=None if problems else 12.0,
        seconds=40.0,
        problems=problems,
    )


def test_a_good_run_is_good_and_its_points_are_in_both_files(tmp_path: Path) -> None:
    report = Report(tmp_path)
    report.add_point(result())
    report.add_section(Section("Readers", ("50 swaps",), ()))
    assert report.is_good
    content = json.loads((tmp_path / "report.json").read_text())
    assert content["kill_points"][0]["is_good"] is True
    text = (tmp_path / "report.md").read_text()
    assert "1 of 1 points" in text
    assert "| `swap.committed:task` |" in text
    assert "- 50 swaps" in text


def test_one_problem_makes_the_run_bad(tmp_path: Path) -> None:
    report = Report(tmp_path)
    report.add_point(result())
    report.add_point(result("table: 1 rows too many"))
    assert not report.is_good
    assert "something went wrong" in (tmp_path / "report.md").read_text()
    assert "FAILED: table: 1 rows too many" in summary_line(report.points[1])


def test_a_section_with_a_problem_makes_the_run_bad(tmp_path: Path) -> None:
    report = Report(tmp_path)
    report.add_section(Section("Readers", (), ("a query failed",)))
    assert not report.is_good


def test_a_run_that_was_aborted_is_not_good(tmp_path: Path) -> None:
    report = Report(tmp_path)
    report.add_point(result())
    report.abort("interrupted")
    assert not report.is_good
    assert "was aborted: interrupted" in (tmp_path / "report.md").read_text()


def test_a_point_whose_moment_did_not_come_is_missed() -> None:
    assert result("MomentMissed: the moment did not come").is_missed
    assert not result("table: 1 rows too many").is_missed


def test_a_job_id_is_found_in_the_body_of_its_insertion() -> None:
    assert find_job_id('{"jobReference": {"jobId": "dedup_clone-f-1-a-swap-1", "x": 1}}') == "dedup_clone-f-1-a-swap-1"
