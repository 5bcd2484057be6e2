"""The figures of docs/engines.md are those of the models, and every engine and form is on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.billing import USD_PER_STREAMED_GIB
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.publish.records.publish_costs import expected_cost
from dedup_clone.settings.spark_settings import SparkSize
from testkit.table_contracts import PRODUCTS
from tests.docs.full_size import MODEL, REPORT, publish_usd, size_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "engines.md").read_text()


def cells(title: str) -> list[str]:
    """The cells of the table row with this title."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_each_engine_and_form_is_on_the_page() -> None:
    for engine in Engine:
        assert any(f"`{engine}`" in cell for cell in cells("What")), engine
    for form in SqlForm:
        assert cells(f"`{form}`")


def test_the_prices_on_demand() -> None:
    adopted, rewritten = publish_usd(), publish_usd(method=Method.REWRITE)
    row_bytes, rows = MODEL.assumed.row_bytes, MODEL.rows
    sql = [
        expected_cost(engine, PRODUCTS, row_bytes, delivered=rows, existing=rows).query_usd
        for engine in (Engine.BIGQUERY, Engine.MERGE)
    ]
    found = cells("USD a publish, on demand")
    assert found[:2] == [f"{adopted:.2f}", f"{rewritten:.2f}"]
    assert found[2:4] == [f"{usd:.0f}" for usd in sql]
    streamed = f"{rewritten:.2f}, and {MODEL.stream_usd:.0f} in BigQuery"
    assert found[4] == f"{rewritten + MODEL.stream_usd:.0f}: {streamed}"
    text = " ".join(PAGE.split())
    stream_usd = MODEL.streamed_gib * USD_PER_STREAMED_GIB
    assert f"are {MODEL.streamed_gib:.0f} GiB, {stream_usd:.2f} USD to stream" in text
    assert f"reads the table once, {MODEL.on_demand_usd(1):.0f} USD" in text


def test_the_reads_are_what_the_prices_follow_from() -> None:
    row_bytes, rows = MODEL.assumed.row_bytes, MODEL.rows
    reads = cells("Reads")
    for engine, cell in ((Engine.BIGQUERY, reads[2]), (Engine.MERGE, reads[3])):
        cost = expected_cost(engine, PRODUCTS, row_bytes, delivered=rows, existing=rows)
        billed = cost.query_bytes_billed / MODEL.assumed.table_bytes
        assert float(cell.split(" times the table")[0].split()[-1]) == pytest.approx(billed, abs=0.006)


def test_the_minutes_of_spark() -> None:
    minutes = [f"{size_of(method=method).expected_minutes:.0f}" for method in (Method.ADOPT, Method.REWRITE)]
    adopted, rewritten, *_ = cells("Table is fresh after")
    assert adopted.startswith(f"Spark {minutes[0]} minutes")
    assert rewritten.startswith(f"Spark {minutes[1]} minutes with {SparkSize().max_executors} executors")


def test_the_prices_of_slots_are_those_of_the_costs_page() -> None:
    enterprise = cells("USD a publish, Enterprise slots")
    assert enterprise[2] == f"{enterprise_usd('`bigquery`, form `qualify`')} for the SELECT"
    assert enterprise[3] == f"{enterprise_usd('`merge`')} for the MERGE"


def enterprise_usd(statement: str) -> str:
    (line,) = [line for line in REPORT.splitlines() if line.startswith(f"| {statement} |")]
    return line.split("|")[4].strip()


def test_the_form_group_by_takes_twice_the_slots() -> None:
    assert MODEL.assumed.group_by_to_qualify_slot_ratio == 2
