"""Executors, minutes, rates and prices in the documents are those of the models, and one thing has one number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.full_size_model import Assumptions, FullSize, measured_per_row
from benchmarks.full_size_report import report
from benchmarks.results import load
from dedup_clone.contract.engine import Engine
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
from dedup_clone.publish.records.publish_costs import expected_cost
from dedup_clone.settings.spark_settings import Runner, SparkSize
from testkit.table_contracts import PRODUCTS
from tests.docs.test_links import PAGES

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


def other_numbers(unit: str, known: set[str], *left_out: str) -> list[str]:
    """Where a page has a number with this unit that is not among the `known` ones."""
    pages = [page for page in PAGES if page.parent.name != "adr" and page.name not in ("CHANGELOG.md", *left_out)]
    found = [(page.name, number) for page in pages for number in re.findall(rf"([\d,.]+) {unit}", page.read_text())]
    assert found
    return [f"{page}: {number} {unit}" for page, number in found if number not in known]


def test_every_number_of_executors_is_the_models(model: FullSize) -> None:
    sizes = [
        size_of(model),
        *(size_of(model, method=method) for method in Method),
        size_of(model, 2),
        size_of(model, 6),
    ]
    assert other_numbers("executors", {str(size.executors) for size in sizes}) == []


def test_every_rate_is_the_models(model: FullSize) -> None:
    rates = [*DELIVERED_S_PER_ROW.values(), *ALL_S_PER_ROW.values(), OLDER_S_PER_ROW]
    known = {f"{rate * 1e9:,.0f}" for rate in rates} | {f"{model.measured.row_number_cpu_s * 1e9:.0f}"}
    assert other_numbers(r"ns\b", known, "benchmarks.md") == []


def test_the_prices_on_demand_follow_from_what_is_read(model: FullSize) -> None:
    costs, rows = (
        (DOCS / "costs.md").read_text(),
        re.compile(r"^\| (.+?) \| (\d\.\d\d) \| (\d+) \| ([\d,]+) \| (\d+) \|$", re.M),
    )
    prices = {}
    for name, multiple, usd, a_day, tib in rows.findall(costs):
        if "streamed" in name:  # more than what is read: see docs/engines.md
            continue
        usd_exact, tib_exact = model.on_demand_usd(float(multiple)), float(multiple) * model.assumed.table_bytes / 2**40
        found = [float(text.replace(",", "")) for text in (usd, a_day, tib)]
        assert found == pytest.approx([usd_exact, usd_exact * 6, tib_exact * 6], rel=0.004), name
        prices[name] = usd
    for engine in (Engine.BIGQUERY, Engine.MERGE):
        cost = expected_cost(engine, PRODUCTS, model.assumed.row_bytes, delivered=model.rows, held=model.rows)
        assert prices[f"`{engine}` with examination and counts"] == f"{cost.query_usd:.0f}"
    for name, form in (("QUALIFY alone, as published", "`bigquery`, form `qualify`"), ("MERGE alone", "`merge`")):
        assert f"| {form} | {prices[name]} |" in costs
    readme = " ".join((DOCS.parent / "README.md").read_text().split())
    qualify, merge = prices["QUALIFY alone, as published"], prices["MERGE alone"]
    assert f"15 TB table and on demand: one QUALIFY statement {qualify} USD, one MERGE {merge} USD" in readme
    assert other_numbers("USD for each time that the table is read", {f"{model.on_demand_usd(1):.2f}"}) == []


def test_the_full_size_on_the_costs_page_is_what_the_model_writes() -> None:
    main_results, growth_results, memory_results = (load(command) for command in ("main", "growth", "memory"))
    assert main_results
    assert growth_results
    assert memory_results
    assert report(main_results, growth_results, memory_results).strip() in (DOCS / "costs.md").read_text()
