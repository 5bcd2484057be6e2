"""The arithmetic of the full size, with figures that can be checked by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from benchmarks.full_size_model import REASONS, Assumptions, FullSize, MeasuredPerRow, measured_per_row, report
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from tests.unit.benchmarks.figures import figure, results

ASSUMED = Assumptions(
    table_bytes=48e9,
    row_bytes=48,
    dates=100,
    vcpus_per_core=2,
    utilisation=1.0,
    start_s=10,
    read_bytes_per_s_per_vcpu=1e9,
)
MEASURED = MeasuredPerRow(
    adopt_cpu_s=1e-6,
    adopt_read_bytes=4,
    adopt_shuffled_bytes=0,
    row_number_cpu_s=4e-6,
    row_number_shuffled_bytes=30,
    qualify_cpu_s=1e-6,
    snapshot_file_bytes=5,
)
MODEL = FullSize(ASSUMED, MEASURED)


def test_cpu_hours_are_rows_times_seconds_per_row() -> None:
    assert MODEL.rows == 1e9
    assert pytest.approx(1000 / 3600) == MODEL.cpu_hours


def test_a_vcpu_is_half_a_core() -> None:
    assert MODEL.seconds_per_date() == pytest.approx(1e7 * 1e-6 * 2)


def test_a_date_takes_as_long_as_reading_it_where_that_is_slower() -> None:
    slow = replace(ASSUMED, read_bytes_per_s_per_vcpu=1e6)
    assert FullSize(slow, MEASURED).seconds_per_date() == pytest.approx(1e7 * 4 / 1e6)


@pytest.mark.parametrize(("executors", "tasks_in_a_row"), [(1, 25), (8, 4), (25, 1), (100, 1)])
def test_the_last_tasks_are_waited_for(executors: int, tasks_in_a_row: int) -> None:
    assert MODEL.wall_s(executors) == pytest.approx(10 + tasks_in_a_row * MODEL.seconds_per_date())


def test_executors_that_are_not_fully_used_take_longer() -> None:
    half = replace(ASSUMED, utilisation=0.5)
    assert FullSize(half, MEASURED).wall_s(25) == pytest.approx(10 + 2 * MODEL.seconds_per_date())


def test_the_driver_is_paid_too() -> None:
    hours = MODEL.wall_s(25) / 3600
    assert MODEL.spark_usd(25) == pytest.approx(26 * 4 * hours * 0.06)


def test_every_file_is_rewritten_once() -> None:
    small = replace(ASSUMED, delivered_file_bytes=20e6)
    model = FullSize(small, MEASURED)
    assert model.files == 100 * 3  # 50 MB a date
    assert model.writes == 300 + 100 * ASSUMED.requests_per_date


def test_on_demand_prices_are_those_of_the_published_run() -> None:
    assert FullSize(Assumptions(), MEASURED).on_demand_usd(2) == pytest.approx(171, abs=1)


def test_slots_are_vcpus() -> None:
    assert MODEL.slots_usd(3.6e-6) == pytest.approx(1e9 * 3.6e-6 * 2 / 3600 * 0.06)


def test_every_assumption_has_a_reason() -> None:
    assert set(REASONS) == {one.name for one in fields(Assumptions)}


def test_figures_are_of_the_main_table_and_the_full_size_of_the_largest_date() -> None:
    main = results(
        "main",
        figure(ADOPT, "large", 1000, cpu_s=2.0, read_bytes=4000),
        figure(ADOPT, "large", 1000, cpu_s=4.0, read_bytes=4000),
        figure(ADOPT, "large", 1000, cpu_s=3.0, read_bytes=4000),
        figure(ROW_NUMBER, "large", 1000, cpu_s=50.0, shuffled_bytes=30_000),
        figure("duckdb-qualify", "large", 1000, cpu_s=10.0),
        figure("spark-copy", "large", 1000, written_bytes=5000),
    )
    sizes = (("x1", 250), ("x2", 500))
    growing = [figure(peer, name, rows, cpu_s=rows / 250) for name, rows in sizes for peer in (ADOPT, ROW_NUMBER)]
    growth = results("growth", *growing, figure(ADOPT, "x4", 1000, cpu_s=4.0))
    measured = measured_per_row(main)
    assert measured == MeasuredPerRow(0.003, 4.0, 0.0, 0.05, 30.0, 0.01, 5.0)
    memory = results("memory", *(figure(ADOPT, name, rows, cpu_s=rows / 100) for name, rows in sizes))
    text = report(main, growth, memory)
    assert "| CPU time of adopt, measured on one date of 500 rows | 10000000 ns per row" in text
    assert "| 250 | 0.75 | 1.00 | 1.33 |" in text
    assert "| 500 | 1.50 | 2.00 | 1.33 |" in text
    assert "| 1,000 | 3.00" not in text
