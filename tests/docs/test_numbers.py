"""One thing has one number: those of the documents are the model's, or are listed here with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import pytest

from dedup_clone.contract.billing import (
    GIB,
    MIN_BYTES_BILLED,
    TIB,
    USD_PER_SLOT_HOUR,
    USD_PER_STREAMED_GIB,
    USD_PER_TIB,
)
from dedup_clone.orchestration.runners.sizing import (
    ALL_S_PER_ROW,
    CORE_UTILIZATION,
    DELIVERED_S_PER_ROW,
    OLDER_S_PER_ROW,
    START_MINUTES,
)
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.publish.records.publish_costs import METADATA_QUERIES, usd_on_demand
from dedup_clone.settings.deployment import PROFILE_VARIABLE, read_deployment
from dedup_clone.settings.spark_settings import Runner, SparkSize
from dedup_clone.state.arrivals import NEWEST_SNAPSHOTS
from deploy.probe.probe_dataset import BUDGET_USD
from tests.docs.full_size import MODEL, PRICES, REPORT, of_size, publish_usd, size_of
from tests.docs.pages import DOCS, PAGES, ROOT
from tests.shared import page_indexes

NUMBER = r"\d[\d,]*(?:\.\d+)?"
MONTH_S, MONTH_PUBLISHES = 30 * 24 * 3600, 180
USD_PER_GB_MONTH = 0.02  # Cloud Storage and BigQuery, US
POLL_INTERVAL_S = read_deployment(ROOT / "dags" / "profiles", {PROFILE_VARIABLE: "gcp"}).notice_interval_s
POLL_USD = MODEL.assumed.usd_per_thousand_writes + NEWEST_SNAPSHOTS * MODEL.assumed.usd_per_thousand_reads
POLLS_USD = MONTH_S / POLL_INTERVAL_S * POLL_USD / 1000
# Prices that are no figures of docs/costs.md, and where they come from.
OTHER_USD = {
    f"{USD_PER_TIB}": "on-demand price of a TiB",
    f"{USD_PER_STREAMED_GIB}": "price of a streamed GiB",
    f"{USD_PER_GB_MONTH}": "price of a stored, replicated or transferred GB",
    f"{USD_PER_SLOT_HOUR['Standard']}": "price of a slot hour, Standard",
    f"{USD_PER_SLOT_HOUR['Enterprise']}": "price of a slot hour, Enterprise",
    f"{6 * 1000 * 25 / 60 * USD_PER_SLOT_HOUR['Enterprise']:.0f}": "hour.md: example of 1,000 slots for 25 minutes",
    f"{MODEL.on_demand_usd(1):.2f}": "the table read once",
    f"{MODEL.on_demand_usd(1):.0f}": "the table read once",
    f"{MODEL.on_demand_usd(16 / 48):.0f}": "costs.md: date and an INT64 column of six columns read once",
    f"{MODEL.stream_usd:.0f}": "engine cdc: rows streamed and applied",
    f"{2 * MODEL.stream_usd:.0f}": "ADR 0020: the same twice",
    f"{MODEL.streamed_gib * USD_PER_STREAMED_GIB:.2f}": "engine cdc: rows streamed",
    f"{usd_on_demand(METADATA_QUERIES * MIN_BYTES_BILLED):.4f}": "the metadata queries of a publish",
    f"{MONTH_PUBLISHES * usd_on_demand(METADATA_QUERIES * MIN_BYTES_BILLED):.2f}": "the same in a month",
    f"{MONTH_S / 300 * usd_on_demand(MIN_BYTES_BILLED):.1f}": "security.md: a metadata query every five minutes",
    f"{usd_on_demand(64 * GIB):.2f}": "content-audit.md: 64 GiB",
    f"{usd_on_demand(20 * GIB):.2f}": "content-audit.md: a partition of 20 GiB",
    f"{2 * usd_on_demand(20 * GIB):.2f}": "bootstrap.md: a partition of 20 GiB in two tables",
    f"{POLLS_USD:.1f}": "limits.md: listings of landing in a month",
    f"{BUDGET_USD:.2f}": "the budget of make probe",
    f"{0.9 * MODEL.assumed.usd_per_dcu_hour:.3f}": "runners.md: a core with 3 GB for an hour",
    f"{2 * 15_000 * USD_PER_GB_MONTH:.0f}": "costs.md: 15 TB replicated and read from another region",
    **{
        f"{generations * table_gb * USD_PER_GB_MONTH:.0f}": "google-cloud.md: files of two generations, staging"
        for table_gb in (100, 1_000, 15_000)
        for generations in (1, 2)
    },
}
# Minutes that are no figures of the model.
OTHER_MINUTES = {
    "5": "README: the first make demo",
    "10": "pauses of retries, deadlines",
    "20": "the metrics' alarm on a silent watchdog",
    "25": "the load in the budget of an hour",
    "30": "when the stand-in clusters again; streaming buffer of insertAll",
    "60": "the hour itself",
    "90": "BigQuery's streaming buffer",
}
OTHER_TIB = {"200": "BigQuery's default quota of bytes queried a day", "50": "BigQuery's quota of bytes exported a day"}


def texts() -> Iterator[tuple[str, str]]:
    """Pages and their texts; line breaks of paragraphs are spaces. The changelog tells of former numbers."""
    for page in PAGES:
        if page.name != "CHANGELOG.md":
            lines = page.read_text().splitlines()
            parts = groupby(lines, key=lambda line: line.startswith("|"))
            yield page.name, "\n".join(("\n" if is_table else " ").join(part) for is_table, part in parts)


def before(unit: str, text: str) -> set[str]:
    return set(re.findall(rf"(?<![\d.,])({NUMBER}) {unit}", text))


def in_tables(unit: str, text: str) -> set[str]:
    """Numbers in columns and rows whose heading has the unit."""
    found: set[str] = set()
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells or not heads:
            heads = cells
            continue
        whole = unit in heads[0] or unit in cells[0]
        numbers = (cell for head, cell in zip(heads[1:], cells[1:], strict=False) if whole or unit in head)
        found |= {number for cell in numbers for number in re.findall(NUMBER, cell)}
    return found


def unknown(unit: str, known: set[str], *, tables: bool = False, leave_out: tuple[str, ...] = ()) -> list[str]:
    wrong, count = [], 0
    for page, text in texts():
        if page in leave_out:
            continue
        numbers = before(unit, text) | (in_tables(unit, text) if tables else set())
        count += len(numbers)
        wrong += [f"{page}: {number} {unit}" for number in sorted(numbers - known)]
    assert count
    return wrong


def test_every_price_is_the_models_or_has_a_reason() -> None:
    known = in_tables("USD", f"{PRICES}\n\n{REPORT}") | set(OTHER_USD)
    for table_bytes in (1e11, 1e12):
        usd = publish_usd(of_size(table_bytes))
        known |= {f"{usd:.2f}", f"{usd * MONTH_PUBLISHES:.0f}"}
    known.add(f"{publish_usd() * MONTH_PUBLISHES:.0f}")
    assert unknown("USD", known, tables=True) == []


def test_a_price_from_elsewhere_is_found() -> None:
    text = "| USD a publish | 5.31 |\n\nIt costs 187 USD.\n\n| Table | USD a month |\n| --- | --- |\n| 15 TB | 926 |"
    assert before("USD", text) | in_tables("USD", text) == {"187", "926"}


def test_every_minute_of_spark_is_the_models_or_has_a_reason() -> None:
    sizes = [size_of(method=method) for method in Method] + [size_of(deliveries=number) for number in (2, 6)]
    known = {f"{size.expected_minutes:.{digits}f}" for size in sizes for digits in (0, 1)}
    known |= before("minutes", REPORT) | {f"{SparkSize().target_minutes - START_MINUTES[Runner.SERVERLESS]}"}
    assert unknown("minutes", known | set(OTHER_MINUTES), leave_out=("benchmarks.md", "soak.md")) == []


def test_every_number_of_executors_and_vcpus_is_the_models() -> None:
    sizes = [size_of(method=method) for method in Method] + [size_of(deliveries=number) for number in (2, 6)]
    assert unknown("executors", {str(size.executors) for size in sizes}) == []
    work_s = (SparkSize().target_minutes - START_MINUTES[Runner.SERVERLESS]) * 60
    needed = size_of().vcpu_seconds / work_s / CORE_UTILIZATION
    known = before("vCPU", REPORT) | {f"{needed:.0f}", f"{size_of().vcpu_seconds:,.0f}"}
    assert unknown("vCPU", known) == []


def test_every_number_of_tib_and_of_rows_is_the_models_or_has_a_reason() -> None:
    assert unknown("TiB", {f"{MODEL.assumed.table_bytes / TIB:.2f}", *OTHER_TIB}) == []
    billions = {f"{MODEL.rows / 1e9:g}", f"{MODEL.rows / 1e9:.0f}"}
    assert unknown("billion", billions | {"20"}) == []  # hour.md: an example of a large date


def test_every_rate_is_the_models() -> None:
    rates = [*DELIVERED_S_PER_ROW.values(), *ALL_S_PER_ROW.values(), OLDER_S_PER_ROW]
    known = {f"{rate * 1e9:,.0f}" for rate in rates} | {f"{MODEL.measured.row_number_cpu_s * 1e9:.0f}"}
    measured = ("benchmarks.md", "0009-no-compiled-kernel.md", "0010-normalized-files.md")
    assert unknown(r"ns\b", known, leave_out=measured) == []


def test_the_costs_page_is_what_the_model_writes() -> None:
    page = (DOCS / "costs.md").read_text()
    assert PRICES in page
    assert REPORT in page


def test_the_readme_begins_with_the_models_prices() -> None:
    prices = dict(re.findall(rf"^\| (.+?) \| \d\.\d\d \| ({NUMBER}) \|", PRICES, re.MULTILINE))
    spark = f"{prices['`spark`, dates adopted']} USD: {MODEL.spark_usd(size_of()):.2f} USD for Spark"
    statements = f"{prices['QUALIFY alone, as published']} USD (QUALIFY) and {prices['MERGE alone']} USD (MERGE)"
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert spark in readme
    assert statements in readme


def test_the_pictures_feed_has_the_models_size_and_prices() -> None:
    record, arrival = page_indexes.record(1, page_indexes.NOW, 60), page_indexes.arrival(1, page_indexes.NOW)
    assert (record.rows, page_indexes.DATES, arrival.bytes) == (
        MODEL.rows,
        MODEL.assumed.dates,
        MODEL.assumed.table_bytes,
    )
    assert arrival.files == MODEL.files
    assert record.cost
    assert record.cost.spark_usd == pytest.approx(MODEL.spark_usd(size_of()), abs=0.005)
    for usd, times in ((record.cost.merge_usd, 17 / 6), (record.cost.qualify_usd, 2)):
        assert usd == pytest.approx(MODEL.on_demand_usd(times), rel=0.001)


def test_the_price_of_a_feeds_polls() -> None:
    text = f"({POLL_INTERVAL_S} seconds in the shipped profile): at list prices about {POLLS_USD:.1f} USD"
    assert text in " ".join((DOCS / "limits.md").read_text().split())
