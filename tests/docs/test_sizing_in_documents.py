"""Executors, minutes and prices of Spark in the documents are those of the model by which publishes are sized."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.full_size_model import Assumptions, FullSize, measured_per_row
from benchmarks.results import load
from dedup_clone.orchestration.runners.sizing import (
    ALL_S_PER_ROW,
    CORE_UTILIZATION,
    DELIVERED_S_PER_ROW,
    OLDER_S_PER_ROW,
    START_MINUTES,
    RunSize,
    size_run,
)
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.settings.spark_settings import Runner, SparkSize

DOCS = Path(__file__).resolve().parents[2] / "docs"


def text_of(page: str) -> str:
    """The page with each line break as one space."""
    return " ".join((DOCS / page).read_text().split())


@pytest.fixture
def model() -> FullSize:
    results = load("main")
    assert results
    return FullSize(Assumptions(), measured_per_row(results))


def size_of(model: FullSize, deliveries: int = 1, method: Method = Method.ADOPT) -> RunSize:
    return size_run(model.workload(deliveries, method), SparkSize(), Runner.SERVERLESS)


def test_the_latency_budget(model: FullSize) -> None:
    page, size = text_of("hour.md"), size_of(model)
    work_minutes = SparkSize().target_minutes - START_MINUTES[Runner.SERVERLESS]
    needed = size.core_seconds / (work_minutes * 60) / CORE_UTILIZATION
    for text in (
        f"x {DELIVERED_S_PER_ROW[Method.ADOPT] * 1e9:.0f} ns = {size.core_seconds:,.0f} vCPU seconds",
        f"in {work_minutes} minutes at {CORE_UTILIZATION:.0%} use that is {needed:.0f} vCPUs".replace("%", " %"),
        f"{size.executors} executors of four",
    ):
        assert text in page
    for what, waiting in (
        ("a backlog of two", size_of(model, 2)),
        ("a backlog of six", size_of(model, 6)),
        ("a late snapshot", size_of(model, method=Method.LATE)),
        ("a rewrite of all dates", size_of(model, method=Method.REWRITE)),
    ):
        assert f"{what} {waiting.expected_minutes:.0f} minutes" in page


def test_the_example_of_a_run_and_the_rates(model: FullSize) -> None:
    page = text_of("runners.md")
    assert f"Spark gets {size_of(model).summary}" in page
    rates = {**DELIVERED_S_PER_ROW, **ALL_S_PER_ROW}
    for rate in [*rates.values(), OLDER_S_PER_ROW]:
        assert f"{rate * 1e9:,.0f} ns" in page


def test_the_costs_page_has_the_size_of_a_publish(model: FullSize) -> None:
    size = size_of(model)
    assert (
        f"| {size.executors} | {size.cores} | {size.expected_minutes:.1f} | {model.spark_usd(size):.2f} |"
        in text_of("costs.md")
    )


@pytest.mark.parametrize(("table", "table_bytes"), [("100 GB", 1e11), ("1 TB", 1e12), ("15 TB", 15e12)])
def test_the_prices_on_google_cloud(model: FullSize, table: str, table_bytes: float) -> None:
    sized = FullSize(Assumptions(table_bytes=table_bytes), model.measured)
    usd = sized.spark_usd(size_of(sized))
    assert f"| {table} | {usd:.2g} | {usd * 180:.0f} |" in text_of("google-cloud.md")


def test_the_quota_on_google_cloud(model: FullSize) -> None:
    assert f"({size_of(model).executors} executors of 4, and a driver, for 15 TB" in text_of("google-cloud.md")
