"""Each sub-command writes its table, with fake rounds instead of measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import cloud_storage, command, fixed_cost, growth, memory, peer_comparison
from benchmarks.dataset import Dataset
from benchmarks.dataset_shape import DatasetShape
from benchmarks.interleaved_rounds import PeerSchedule, PreparedDataset
from benchmarks.peer import PeerResult
from benchmarks.peer_process import MeasuredRun
from benchmarks.peers.registry import ADOPT, ENTRIES, ROW_NUMBER
from benchmarks.resource_usage import ResourceUsage
from benchmarks.results import load
from benchmarks.row_counts import RowCounts
from benchmarks.table_digest import TableDigest
from dedup_clone.contract.request import Plan
from tests.unit.benchmarks.figures import results, run_figures


class FakeRounds:
    """Replaces InterleavedRounds. Every run takes one second for each thousand rows."""

    def __init__(self, *_: Any) -> None:
        self.failures: dict[str, str] = {}

    def run(self, plans: Sequence[PeerSchedule]) -> list[MeasuredRun]:
        return [
            MeasuredRun(
                plan.peer,
                prepared_dataset.dataset.name,
                repeat,
                ResourceUsage(
                    wall_s=prepared_dataset.dataset.rows / 1000,
                    cpu_s=prepared_dataset.dataset.rows / 1000,
                    worker_bytes=2**20,
                ),
                PeerResult((), bytes_read=prepared_dataset.dataset.rows * 5, notes={"plans": "adopt 13"}),
                0,
                prepared_dataset.dataset.rows,
            )
            for plan in plans
            for repeat in range(plan.rounds * plan.repeats)
            for prepared_dataset in plan.datasets
        ]


def rounds_without(failed_peer: str) -> type[FakeRounds]:
    """Rounds in which one peer fails."""

    class Failing(FakeRounds):
        def run(self, plans: Sequence[PeerSchedule]) -> list[MeasuredRun]:
            self.failures[failed_peer] = "no memory"
            return [run for run in super().run(plans) if run.peer not in self.failures]

    return Failing


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page into which all tables are written. Nothing is prepared or measured."""
    for module in (peer_comparison, growth, memory, fixed_cost):
        monkeypatch.setattr(module, "prepare_all", lambda shapes, log: None)
        monkeypatch.setattr(module, "prepared_dataset", fake_prepared_dataset)
        monkeypatch.setattr(module, "InterleavedRounds", FakeRounds)
    monkeypatch.setattr("benchmarks.results.RESULTS", tmp_path / "default")
    monkeypatch.setattr("benchmarks.results.OTHER_SIZE_RESULTS", tmp_path / "quick")
    monkeypatch.setattr(command, "PEERS_PYTHON", tmp_path)
    path = tmp_path / "page.md"
    names = ("main", "growth", "memory", "prices", "full size")
    path.write_text("".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in names))
    monkeypatch.setattr(command, "_BENCHMARKS_PAGE", path)
    monkeypatch.setattr(command, "_COSTS_PAGE", path)
    return path


def fake_prepared_dataset(shape: DatasetShape) -> PreparedDataset:
    return PreparedDataset(Path(shape.name), Dataset(1, shape.name, shape.rows, TableDigest(), RowCounts()))


def test_results_of_default_sizes_are_written_into_the_page(page: Path) -> None:
    for name in ("main", "growth", "memory", "model"):
        assert command.main([name]) == 0
    text = page.read_text()
    assert ENTRIES[ROW_NUMBER].title in text
    assert "rows: x4 | 26,000,000 | 13 | 26000.00 |" in text
    assert "| fingerprints stored, one core | 100,000,000 | 1 |" in text
    assert "`row_bytes`" in text
    assert "measured / model" in text


@pytest.mark.parametrize("module", [peer_comparison, growth, memory])
def test_results_of_other_sizes_change_no_page(
    module: ModuleType, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = page.read_text()
    assert command.main([module.COMMAND, "--rows", "640000"]) == 0
    assert page.read_text() == before
    assert load(module.COMMAND) is None
    assert "| --- |" in capsys.readouterr().out


def test_memory_refuses_too_few_rows_before_it_measures(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "prepare_all", lambda shapes, log: pytest.fail("data sets were prepared"))
    with pytest.raises(SystemExit, match="expected at least"):
        command.main(["memory", "--rows", "20000"])


def test_memory_makes_its_table_of_the_fewest_rows(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["memory", "--rows", "100000"]) == 0
    assert "backlog of 6, fingerprints stored, one core, modelled" in capsys.readouterr().out


def test_results_of_some_peers_change_no_page(page: Path) -> None:
    before = page.read_text()
    assert command.main(["main", "--only", f"{ADOPT},{ROW_NUMBER}"]) == 0
    assert page.read_text() == before


def test_a_failed_peer_makes_the_exit_status_1(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_comparison, "InterleavedRounds", rounds_without("delta-merge"))
    assert command.main(["main"]) == 1
    assert "No figures of delta-rs MERGE: no memory" in page.read_text()


def test_the_model_leaves_out_the_rates_of_a_peer_that_failed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("main", "growth"):
        assert command.main([name]) == 0
    monkeypatch.setattr(memory, "InterleavedRounds", rounds_without(ADOPT))
    assert command.main(["memory"]) == 1
    assert command.main(["model"]) == 0
    text = page.read_text()
    assert "| joined by Spark, rows of parent and delivery |" in text
    assert "| newest delivery, adopted |" not in text


def test_the_model_needs_stored_results(page: Path) -> None:
    with pytest.raises(SystemExit, match="run these first"):
        command.main(["model"])


def test_the_model_names_the_peers_whose_figures_it_lacks(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_comparison, "InterleavedRounds", rounds_without(ROW_NUMBER))
    for name in ("main", "growth", "memory"):
        command.main([name])
    with pytest.raises(SystemExit, match=r"\[spark-row-number\] in the results of `main`"):
        command.main(["model"])


def test_the_fixed_cost_is_the_cold_time_minus_the_warm_time() -> None:
    measured = results(
        "fixed-cost",
        run_figures(fixed_cost.COLD, "large", 1000, wall_s=8.0, notes={"adopt": "1.00"}),
        run_figures(fixed_cost.COLD, "large", 1000, wall_s=9.0, notes={}),
        run_figures(fixed_cost.COLD, "small", 10, wall_s=2.0, notes={}),
        run_figures(fixed_cost.COLD_WINDOW, "small", 10, wall_s=6.0, notes={}),
        run_figures(ADOPT, "large", 1000, wall_s=1.5),
        run_figures(ADOPT, "small", 10, wall_s=0.25),
    )
    text = fixed_cost.report(measured)
    assert "| adopt, all rows | 1,000 | 8.50 | 1.0 | 1.50 | 7.00 | adopt 1.00 |" in text
    assert "| 10 | 2.00 | 1.0 | 0.25 | 1.75 |" in text
    assert "| 10 | 6.00 | 1.0 |  |  |" in text


def test_a_cold_run_has_no_figures_of_the_process_that_measures_it(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = ResourceUsage(wall_s=8.0, python_bytes=500, worker_bytes=200, driver_bytes=300)

    def measure_cold(peer: str, plan: Plan, prepared: PreparedDataset) -> MeasuredRun:
        return MeasuredRun(peer, prepared.dataset.name, 0, spent, PeerResult(()), None, 0)

    monkeypatch.setattr(fixed_cost, "_measure_cold", measure_cold)
    for cold in fixed_cost.run(1000).figures_of(fixed_cost.COLD):
        assert cold.python_bytes == 200
        assert (cold.worker_bytes, cold.driver_bytes, cold.shuffled_bytes) == (None, None, None)


def test_files_and_objects_have_a_line_each() -> None:
    notes = {"phases": "adopt 0.10", "plans": "adopt 13"}
    measured = results(
        "storage",
        run_figures(ADOPT, "data", 100, wall_s=1.0, notes={**notes, "place": "files"}),
        run_figures(ADOPT, "data", 100, wall_s=2.0, notes={**notes, "place": "objects"}),
    )
    lines = cloud_storage.report(measured).splitlines()
    assert lines[2].startswith("| files of this machine | 100 | 1 | 1.00 |")
    assert lines[3].startswith("| `gs://`, fake-gcs-server on this machine | 100 | 1 | 2.00 |")
