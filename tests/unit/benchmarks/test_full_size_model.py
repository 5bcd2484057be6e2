"""The model of a publish of 15 TB, with numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from benchmarks.full_size_model import REASONS, Assumptions, FullSize, MeasuredPerRow, measured_per_row
from benchmarks.full_size_report import report
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.rate_checks import check_rates
from benchmarks.results import load
from dedup_clone.orchestration.runners.sizing import size_run
from dedup_clone.settings.spark_settings import Runner, SparkSize
from tests.unit.benchmarks.figures import results, run_figures

ASSUMED = Assumptions(table_bytes=48e9, row_bytes=48, dates=100)
MEASURED = MeasuredPerRow(
    adopt_read_bytes=4,
    adopt_shuffled_bytes=0,
    row_number_cpu_s=4e-6,
    row_number_shuffled_bytes=30,
    qualify_cpu_s=1e-6,
    snapshot_file_bytes=5,
)
MODEL = FullSize(ASSUMED, MEASURED)


def test_the_workload_has_the_rows_bytes_and_dates_of_the_table() -> None:
    backlog = MODEL.workload(3)
    assert (backlog.newest_rows, backlog.older_rows, backlog.parent_rows) == (10**9, 2 * 10**9, 10**9)
    assert (backlog.delivered_bytes, backlog.dates) == (3 * 48 * 10**9, 100)


def test_the_price_includes_the_driver() -> None:
    size = replace(size_run(MODEL.workload(), SparkSize(), Runner.SERVERLESS), executors=25, expected_minutes=30.0)
    assert MODEL.spark_usd(size) == pytest.approx((25 * 4 + 4) * (0.6 + 3 * 0.1) * 0.5 * 0.06)


def test_every_delivered_file_is_written_once() -> None:
    small = replace(ASSUMED, delivered_file_bytes=20e6)
    model = FullSize(small, MEASURED)
    assert model.files == 100 * 3  # 50 MB a date
    assert model.writes == 300 + 100 * ASSUMED.requests_per_date


def test_the_on_demand_price_equals_that_of_the_reference_run() -> None:
    assert FullSize(Assumptions(), MEASURED).on_demand_usd(2) == pytest.approx(171, abs=1)


def test_a_slot_is_as_fast_as_a_vcpu() -> None:
    assert MODEL.slot_hours(3.6e-6) == pytest.approx(1e9 * 3.6e-6 * 2 / 3600)


def test_every_assumption_has_a_reason() -> None:
    assert set(REASONS) == {field.name for field in fields(Assumptions)}


MAIN = results(
    "main",
    run_figures(ADOPT, "large", 1000, cpu_s=2.0, read_bytes=4000),
    run_figures(ADOPT, "large", 1000, cpu_s=4.0, read_bytes=4000),
    run_figures(ADOPT, "large", 1000, cpu_s=3.0, read_bytes=4000),
    run_figures("adopt-exact", "large", 1000, cpu_s=6.0),
    run_figures("rewrite", "large", 1000, cpu_s=20.0),
    run_figures(ROW_NUMBER, "large", 1000, cpu_s=50.0, shuffled_bytes=30_000),
    run_figures("duckdb-qualify", "large", 1000, cpu_s=10.0),
    run_figures("spark-copy", "large", 1000, written_bytes=5000),
)
GROWTH = results(
    "growth",
    run_figures(ADOPT, "uniform-250x13", 250, cpu_s=1.0),
    run_figures(ADOPT, "uniform-500x13", 500, cpu_s=9.0),
    run_figures(ADOPT, "backlog-2-250x13", 250, cpu_s=1.5),
    run_figures(ADOPT, "backlog-6-250x13", 250, cpu_s=3.0),
    run_figures(ADOPT, "correction-250x13", 250, cpu_s=1.25),
)
MEMORY = results("memory", run_figures(ADOPT, "small", 1000, cpu_s=1.0), run_figures(ADOPT, "large", 2000, cpu_s=8.0))


def test_values_per_row_come_from_the_results_of_main() -> None:
    assert measured_per_row(MAIN) == MeasuredPerRow(4.0, 0.0, 0.05, 30.0, 0.01, 5.0)
    text = report(MAIN, GROWTH, MEMORY)
    assert "| backlog of 6 |" in text
    assert "| late snapshot, filled in |" not in text  # it was not measured


def test_prices_of_statements_have_the_ratios_of_the_reference_run() -> None:
    """QUALIFY took half the slot time of MERGE, GROUP BY as much as MERGE, and all were billed for 30 TiB at most."""
    lines = [line.split("|")[1:-1] for line in report(MAIN, GROWTH, MEMORY).splitlines()]
    prices = {line[0].strip().strip("`"): [cell.strip() for cell in line[1:]] for line in lines if len(line) == 5}
    highest = {
        name: [float(cell.split()[-1]) for cell in cells] for name, cells in prices.items() if cells[-1][:1].isdigit()
    }
    qualify, group_by, merge = (
        highest[name] for name in ("bigquery`, form `qualify", "bigquery`, form `group_by", "merge")
    )
    assert highest["bigquery`, form `row_number"] == qualify
    assert merge[1:] == group_by[1:] == pytest.approx([2 * usd for usd in qualify[1:]], rel=0.001)
    assert qualify[0] == group_by[0] < merge[0] < 1.5 * qualify[0]


def test_measured_rates_are_multiples_of_the_rate_on_the_largest_date() -> None:
    adopt = 8.0 / 2000 * 2
    assert {check.name: check.measured for check in check_rates(MAIN, GROWTH, MEMORY)} == {
        "newest delivery, adopted": pytest.approx(adopt),
        "correction, adopted": pytest.approx(1.25 * adopt),
        "older delivery of a backlog": pytest.approx((3.0 - 1) / 5 * adopt),
        "`dedup.exact`": pytest.approx(2 * adopt),
        "rewritten, rows of parent and delivery": pytest.approx(20 / 1000),
        "joined by Spark, rows of parent and delivery": pytest.approx(50 / 1000),
    }


def test_rates_of_the_sizing_model_are_near_those_of_the_stored_results() -> None:
    """Otherwise publishes get too few executors, or more than three times as many as they need."""
    main, growth, memory = (load(command) for command in ("main", "growth", "memory"))
    assert main
    assert growth
    assert memory
    for check in check_rates(main, growth, memory):
        assert 0.33 <= check.measured / check.model <= 1.25, check
