"""The cards of cost, rows, lag, checks and partitions, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median

import pytest

from dedup_clone.freshness.durations import format_duration
from testkit.browser import Browser, Page
from tests.page.shown_page import show
from tests.shared import page_indexes


def test_the_cost_names_the_part_of_spark_and_is_projected_to_the_full_size(shown: Callable[[str], Page]) -> None:
    cost = shown("/dedup-clone/#product_attributes").value("document.getElementById('cost').innerText")
    assert "Spark is $5.14 of it" in cost
    assert "A complete snapshot at the full size, 30,000 GB" in cost
    assert "2 times the table as it is" in cost
    assert all(amount in cost for amount in ("$10.28", "$483.20", "$341.00"))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("rollback", "A rollback is not compared: nobody would run a MERGE or QUALIFY instead."),
        ("publish", "What a MERGE or QUALIFY would have cost instead of this publish is not known."),
    ],
)
def test_why_a_cost_is_not_compared_depends_on_what_is_live(
    shown: Callable[[str], Page], kind: str, words: str
) -> None:
    data = {"live": {"kind": kind, "merge_usd": None}, "costs": {}, "projection": None}
    text = (
        "import('./static/1/cost.js').then((m) => { const card = document.createElement('section');"
        f" m.renderCost(card, {json.dumps(data)}); return card.textContent; }})"
    )
    assert shown("/nothing/").value(text) == words


def test_less_than_a_cent_is_not_compared_with_less_than_a_cent(shown: Callable[[str], Page]) -> None:
    tiny = {"kind": "publish", "usd": 0.0001, "spark_usd": None, "runs_spark": True}
    data = {"live": {**tiny, "merge_usd": 0.0001, "qualify_usd": 0.0001}, "costs": {}, "projection": None}
    text = (
        "import('./static/1/cost.js').then((m) => { const card = document.createElement('section');"
        f" m.renderCost(card, {json.dumps(data)}); return card.textContent; }})"
    )
    cost = shown("/nothing/").value(text)
    assert "$" not in cost
    assert "less than a cent" in cost


def test_a_replay_is_not_labelled_like_a_snapshot_and_dropped_rows_are_shown(shown: Callable[[str], Page]) -> None:
    page = shown("/replayed/")
    readout = page.value("document.querySelector('#rows .readout').textContent")
    assert readout.startswith("A replay, snapshot 2040 ")
    assert readout.endswith(" 1,234 dropped.")
    cells = "[...document.querySelectorAll('#publishes {}')].map((one) => one.textContent)"
    headers, row = page.value(cells.format("th")), page.value(cells.format("tbody tr:first-child td"))
    shown_row = dict(zip(headers, row, strict=True))
    assert (shown_row["Lag"], shown_row["Dropped"], shown_row["Reason"]) == ("replay", "1,234", "prices were wrong")


def test_the_reason_of_a_publish_is_in_sight_on_a_small_screen(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/replayed/", width=1280)
    edges = page.value(
        "((table) => [[...table.querySelectorAll('th')].find((one) => one.textContent === 'Reason'), table]"
        ".map((one) => one.getBoundingClientRect().right))(document.querySelector('#publishes .scroll'))"
    )
    assert edges[0] <= edges[1]


def test_a_cost_without_the_price_of_spark_is_not_shown_as_if_it_were_all(shown: Callable[[str], Page]) -> None:
    known = {"usd": 0.0002, "spark_usd": None, "runs_spark": True, "merge_usd": 241.58, "qualify_usd": 170.53}
    data = {"live": known, "costs": {**known, "publishes": 1}, "projection": {**known, "full_size_gb": 15, "times": 2}}
    text = (
        "import('./static/1/cost.js').then((m) => { const card = document.createElement('section');"
        f" m.renderCost(card, {json.dumps(data)}); return card.textContent; }})"
    )
    cost = shown("/nothing/").value(text)
    assert cost.count("$0.0002") == cost.count("$0.0002 + Spark") == 4
    assert "This is without Spark, which is most of the cost." in cost
    assert "less." not in cost
    assert cost.count("no bar: the part of Spark is not known") == 2  # of this publish and of the projection


def test_partitions_that_are_overdue_are_not_counted_as_expiring_soon(shown: Callable[[str], Page]) -> None:
    dates = [["2026-01-01", 5, 0, -2], ["2026-01-02", 5, 0, 0], ["2026-01-20", 5, 0, 8]]
    data = {"dates": dates, "retention": 30, "audit": None, "now": "2026-02-01"}
    text = (
        "import('./static/1/calendar.js').then((m) => { const card = document.createElement('section');"
        f" m.renderCalendar(card, {json.dumps(data)});"
        " return [card.querySelector('.readout').textContent, card.querySelector('td:last-child').textContent]; })"
    )
    summary, first_expires = shown("/nothing/").value(text)
    assert summary.endswith("; 1 expires within 7 days, 1 overdue for removal.")
    assert first_expires == "overdue"


def test_the_order_of_a_publishs_files_is_beside_its_rows_where_it_is_known(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    column = "[...document.querySelectorAll('th')].find((head) => head.innerText.toLowerCase() === 'overlap')"
    cells = "[...{}.closest('table').tBodies[0].rows].map((row) => row.cells[{}.cellIndex].innerText)"
    assert set(page.value(cells.format(column, column))) == {"25 %", ""}
    assert page.value(f"{column}.closest('table').querySelector('span[title*=\"dedup.plan: rewrite\"]') !== null")


def test_the_first_publish_does_not_hide_the_rows_of_all_others(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    assert "cut off" not in page.value("document.getElementById('rows').innerText")
    page = shown("/beginning/")
    assert "1 taller bar is cut off, up to 312.9B rows" in page.value("document.getElementById('rows').innerText")
    assert page.value("document.getElementById('rows').chart.scales.y.max") < 2e9


def test_snapshots_without_a_change_hide_no_others_rows(shown: Callable[[str], Page]) -> None:
    rows = {"changed_rows": 0, "retained_rows": 0, "snapshot_id": "1"}
    limits = [
        shown("/nothing/").value(
            "import('./static/1/charts.js').then((m) => { const card = document.createElement('section');"
            f" m.renderRows(card, {json.dumps([{**rows, 'new_rows': new} for new in tops])});"
            " card.observer.disconnect(); return Promise.resolve().then(() =>"
            "  [card.chart.scales.y.max, card.textContent.includes('cut off')]); })"
        )
        for tops in ([0, 0, 0, 500, 1_000_000], [0, 0, 0, 500, 700], [0, 0])
    ]
    assert limits == [[625, True], [pytest.approx(756), False], [1, False]]


def test_the_first_publish_does_not_hide_the_lag_of_all_others(shown: Callable[[str], Page]) -> None:
    chart = "document.getElementById('lag').chart"
    page = shown("/beginning/")
    assert ", up to 36 h 00 min" in page.value("document.getElementById('lag').innerText")
    highest, first = page.value(f"[{chart}.scales.y.max, {chart}.data[1][0]]")
    assert highest == first < 36 * 60 / 10
    assert page.value(f"{chart}.axes[0].values({chart}, [0, 11])") == ["2001", "2012"]
    page = shown("/dedup-clone/#product_attributes")
    assert "cut off" not in page.value("document.getElementById('lag').innerText")


def test_the_lag_chart_names_the_median_of_an_even_number_of_publishes(shown: Callable[[str], Page]) -> None:
    lags = [record.lag_s for record in page_indexes.make_index(12, 1, now=datetime.now(UTC)).records[1:]]
    expected = median([36 * 3600.0, *(lag for lag in lags if lag is not None)])
    label = shown("/beginning/").value("document.querySelector('#lag .chart').getAttribute('aria-label')")
    assert label.startswith(f"Last 12: median {format_duration(timedelta(seconds=expected))}, ")


def test_failed_checks_are_shown_and_passed_checks_collapsed(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#store_visits")
    pills = "[...document.querySelectorAll('#checks tr .pill')]"
    visible = f"{pills}.filter((pill) => pill.checkVisibility()).map((pill) => pill.innerText)"
    assert page.value(visible) == ["fail", "warn"]
    page.value("document.querySelector('#checks summary').click()")
    assert page.value(visible) == ["fail", "warn", "pass"]
