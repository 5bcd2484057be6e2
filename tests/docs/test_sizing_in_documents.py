"""What the documents say of executors, minutes and prices, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.orchestration.runners.sizing import (
    ALL_S_PER_ROW,
    CORE_UTILIZATION,
    DELIVERED_S_PER_ROW,
    OLDER_S_PER_ROW,
    START_MINUTES,
)
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.settings.spark_settings import Runner, SparkSize
from tests.docs.full_size import of_size, publish_usd, size_of

DOCS = Path(__file__).resolve().parents[2] / "docs"


def text_of(page: str) -> str:
    """The page with each line break as one space."""
    return " ".join((DOCS / page).read_text().split())


def test_the_latency_budget() -> None:
    page, size = text_of("hour.md"), size_of()
    work_minutes = SparkSize().target_minutes - START_MINUTES[Runner.SERVERLESS]
    needed = size.vcpu_seconds / (work_minutes * 60) / CORE_UTILIZATION
    for text in (
        f"x {DELIVERED_S_PER_ROW[Method.ADOPT] * 1e9:.0f} ns = {size.vcpu_seconds:,.0f} vCPU seconds",
        f"in {work_minutes} minutes at {CORE_UTILIZATION:.0%} use that is {needed:.0f} vCPUs".replace("%", " %"),
        f"{size.executors} executors of four",
    ):
        assert text in page
    for what, waiting in (
        ("a backlog of two", size_of(deliveries=2)),
        ("a backlog of six", size_of(deliveries=6)),
        ("a late snapshot", size_of(method=Method.LATE)),
        ("a rewrite of all dates", size_of(method=Method.REWRITE)),
    ):
        assert f"{what} {waiting.expected_minutes:.0f} minutes" in page


def test_the_example_of_a_run_and_the_rates() -> None:
    page = text_of("runners.md")
    assert f"Spark gets {size_of().summary}" in page
    rates = {**DELIVERED_S_PER_ROW, **ALL_S_PER_ROW}
    for rate in [*rates.values(), OLDER_S_PER_ROW]:
        assert f"{rate * 1e9:,.0f} ns" in page


@pytest.mark.parametrize(("table", "table_bytes"), [("100 GB", 1e11), ("1 TB", 1e12), ("15 TB", 15e12)])
def test_the_prices_on_google_cloud(table: str, table_bytes: float) -> None:
    usd = publish_usd(of_size(table_bytes))
    assert f"| {table} | {usd:.2f} | {usd * 180:.0f} |" in text_of("google-cloud.md")


def test_the_quota_on_google_cloud() -> None:
    assert f"({size_of().executors} executors of 4, and a driver, for 15 TB" in text_of("google-cloud.md")
