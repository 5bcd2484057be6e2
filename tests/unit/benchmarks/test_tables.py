"""The tables that sub-commands make from figures, and the files in which figures are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import growth, memory, peer_comparison
from benchmarks.command import main
from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.json_records import from_json_value, read_record, write_record
from benchmarks.peers.registry import ADOPT, ENTRIES, READ_BOTH, ROW_NUMBER
from benchmarks.results import Results, load, save
from tests.unit.benchmarks.figures import results, run_figures


def test_the_main_table_has_the_fastest_peer_first_and_the_ratios() -> None:
    measured = results(
        "main",
        run_figures(ROW_NUMBER, "data", 100, wall_s=60.0, dates=13),
        run_figures(ROW_NUMBER, "data", 100, wall_s=62.0),
        run_figures("spark-sort-merge", "data", 100, wall_s=50.0),
        run_figures("spark-shuffled-hash", "data", 100, wall_s=25.0),
        *(run_figures(ADOPT, "data", 100, wall_s=wall) for wall in (1.0, 1.5, 1.25)),
        run_figures(READ_BOTH, "data", 100, wall_s=1.0, read_bytes=540),
    )
    text = peer_comparison.report(measured)
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert [line.split(" | ")[0].lstrip("| ") for line in lines] == [
        ENTRIES[name].title for name in (READ_BOTH, ADOPT, "spark-shuffled-hash", "spark-sort-merge", ROW_NUMBER)
    ]
    assert "| 3 | 1.25 | 1.00 to 1.50 |" in lines[1]
    assert "| 2.70 |" in lines[0]
    assert "48.8 times as fast as Spark's ROW_NUMBER" in text
    assert "20.0 times as fast as the fastest plain Spark join" in text
    assert "takes 1.25 times as long as pyarrow" in text


def test_a_peer_that_failed_is_named() -> None:
    measured = replace(results("main", run_figures(ADOPT, "data", 100)), failures={"delta-merge": "no memory\nat all"})
    assert "No figures of delta-rs MERGE: no memory" in peer_comparison.report(measured)


def test_growth_compares_the_time_per_row_with_the_first_shape_of_each_part() -> None:
    rows = 1000
    figures = [
        run_figures(
            ADOPT, shape.name, shape.rows, dates=shape.dates, wall_s=float(shape.rows) * (3 if shape.string_keys else 1)
        )
        for shape in growth.all_shapes(rows)
    ]
    text = growth.report(results("growth", *figures), rows)
    assert "| keys: one of them text | 250 | 13 | 750.00 |" in text
    assert [line.split(" | ")[6] for line in text.splitlines() if line.startswith("| keys")] == ["1.00", "3.00"]
    parts = [line.split(":")[0] for line in text.splitlines() if line.startswith("| ")]
    assert parts.count("| deliveries") == 5
    assert parts.count("| variants") + 4 == len(Variant)


def test_a_backlog_is_compared_with_one_delivery() -> None:
    rows = 1000
    shapes = growth.shapes_by_deliveries(rows)
    figures = [
        run_figures(ADOPT, shape.name, shape.rows, dates=shape.dates, wall_s=1.0) for shape in growth.all_shapes(rows)
    ]
    figures = [replace(f, wall_s=2.5) if f.dataset_name == shapes[2].name else f for f in figures]
    lines = growth.report(results("growth", *figures), rows).splitlines()
    ratios = [line.split(" | ")[6] for line in lines if line.startswith("| deliveries")]
    assert ratios == ["1.00", "1.00", "2.50", "1.00", "1.00"]


def test_the_dataframe_plans_are_compared_with_row_number_on_few_rows() -> None:
    rows = 1000
    shape_of_plans = growth.shape_for_plans(rows)
    measured = results(
        "growth",
        *(run_figures(ADOPT, shape.name, shape.rows, dates=shape.dates) for shape in growth.all_shapes(rows)),
        run_figures("window", shape_of_plans.name, shape_of_plans.rows, wall_s=4.0),
        run_figures(ROW_NUMBER, shape_of_plans.name, shape_of_plans.rows, wall_s=5.0),
    )
    lines = growth.report(measured, rows).splitlines()
    table = lines[lines.index("| on few rows | rows per input | wall s, median | CPU s |") + 2 :]
    assert [line.split(" | ")[:3] for line in table[1:3]] == [
        [f"| {ENTRIES['window'].title}", "50", "4.00"],
        [f"| {ENTRIES[ROW_NUMBER].title}", "50", "5.00"],
    ]


def test_memory_of_a_larger_date_is_extrapolated_linearly_by_buckets() -> None:
    stored, _, backlog, _ = memory.parts(100_000_000)
    sizes = zip([*stored.shapes, *backlog.shapes], (110, 120, 135, 90, 105), strict=True)
    figures = [run_figures(stored.peer, s.name, s.rows, worker_bytes=mib * memory.MIB) for s, mib in sizes]
    measured = results("memory", *figures)
    # 2**18 buckets for a quarter of the rows, 2**20 for all of them, 2**22 for any date that is much larger.
    expected = 135 + 15 / (2**20 - 2**18) * (2**22 - 2**20)
    assert memory.large_date_mib(measured, stored) == pytest.approx(expected)
    # With five older deliveries at most 2**19 buckets, which all of the rows have already.
    assert memory.large_date_mib(measured, backlog) == 105


def test_the_job_does_not_know_how_many_rows_differ_from_the_parents_of_data_sets() -> None:
    stored, *_ = memory.parts(110_000_000)
    sizes = zip(stored.shapes, (110, 120, 135), strict=True)
    figures = [run_figures(stored.peer, s.name, s.rows, worker_bytes=mib * memory.MIB) for s, mib in sizes]
    measured = results("memory", *figures)
    # 128 rows in a bucket, so 2**18 buckets for a quarter of the rows, and 2**20 for all of them.
    expected = 135 + 15 / (2**20 - 2**18) * (2**22 - 2**20)
    assert memory.large_date_mib(measured, stored) == pytest.approx(expected)


def test_results_are_read_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.results.RESULTS", tmp_path / "default")
    monkeypatch.setattr("benchmarks.results.OTHER_SIZE_RESULTS", tmp_path / "quick")
    assert load("main") is None
    quick = save("main", [run_figures(ADOPT, "data", 100)], {}, is_default_size=False)
    assert load("main") is None
    assert read_record(Results, tmp_path / "quick/main.json") == quick
    default = save("main", [run_figures(ADOPT, "data", 100)], {"delta-merge": "failed"}, is_default_size=True)
    assert load("main") == default


def test_records_keep_their_types(tmp_path: Path) -> None:
    shape = DatasetShape(100, variant=Variant.LATE)
    write_record(tmp_path / "shape.json", {"rows": 100, "dates": 13, "variant": "late", **_other_fields(shape)})
    assert read_record(DatasetShape, tmp_path / "shape.json") == shape
    assert from_json_value(int | None, None) is None


def _other_fields(shape: DatasetShape) -> dict[str, object]:
    """The fields of a shape that the test does not write out."""
    names = ("differing", "survivor_share", "string_keys", "seed")
    return {name: getattr(shape, name) for name in names}


def test_an_unknown_peer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["main", "--only", "adopt,nobody"])
    assert "no peer [nobody]" in capsys.readouterr().err


def test_every_peer_has_a_title_and_runs() -> None:
    assert len({entry.title for entry in ENTRIES.values()}) == len(ENTRIES)
    assert all(entry.rounds > 0 and entry.repeats > 0 for entry in ENTRIES.values())
