"""Single parts of the page: what its own scripts render of values, in a browser, without a feed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.freshness.incident import format_duration
from testkit.browser import Page

NOW = str(datetime.now(UTC))
HERO = {
    "now": NOW,
    "has_history": True,
    "deliveries": [{"state": "waiting", "arrived_at": NOW}],
    "live": None,
    "sla_minutes": 60,
    "freshness": {"status": "at risk", "headline": "1 waits.", "next_step": "see.", "check_age_s": 1, "waiting": 1},
}
COST = {"usd": 0.0002, "spark_usd": None, "runs_spark": True, "merge_usd": 241.58, "qualify_usd": 170.53}
TINY = {"kind": "publish", "usd": 0.0001, "spark_usd": None, "runs_spark": True}


def script(shown: Callable[[str], Page], module: str, expression: str) -> Any:
    """The value of a JavaScript expression about `m`, a module of the page."""
    return shown("/nothing/").value(f"import('./static/{module}.js').then((m) => {expression})")


def rendered(shown: Callable[[str], Page], module: str, function: str, values: Any, wanted: str) -> Any:
    """The value of `wanted`, JavaScript about `card`, after a part of the page was rendered into it."""
    call = f"const card = document.createElement('section'); m.{function}(card, {json.dumps(values)});"
    return script(shown, module, f"{{ {call} return {wanted}; }}")


@pytest.mark.parametrize(
    ("task", "has_dates"),
    [("dedup_existing", True), ("dedup_rebuilt", True), ("erase_rows", True), ("check_staging", False)],
)
def test_the_dates_that_are_done_are_shown_for_each_task_that_runs_spark(
    shown: Callable[[str], Page], task: str, has_dates: bool
) -> None:
    running = {
        **{"dag_id": "sales_erase", "run_id": "1", "kind": "erase", "generation": 8, "taken_at": NOW},
        "task": {"task_id": task, "state": "running", "start_date": NOW},
        "dates": {"phase": "compare", "done": 12, "of": 730, "at": NOW},
    }
    view = {**HERO, "has_history": False, "running": running}
    text = rendered(shown, "hero", "renderHero", view, "card.querySelector('.at-work').textContent")
    assert (", 12 of 730 dates" in text) is has_dates


# Each: module, function, its values, and what the rendered part must and must not say.
PARTS: list[tuple[str, str, Any, str, str]] = [
    ("hero", "renderHero", {**HERO, "deliveries": [{"state": "published"}]}, "Waiting1not registered yet", "none"),
    ("hero", "renderHero", HERO, "1 waits.checked 1 s agoWhat to do: see.", "not registered"),
    ("cost", "renderCost", {"kind": "rollback", "merge_usd": None}, "A rollback is not compared", "not known"),
    ("cost", "renderCost", {"kind": "publish", "merge_usd": None}, "is not known", "A rollback"),
    ("cost", "renderCost", {**TINY, "merge_usd": 0.0001, "qualify_usd": 0.0001}, "less than a cent", r"\$"),
    (  # most of the cost is not known, so nothing is said to be less
        "cost",
        "renderCost",
        COST,
        "no bar: the part of Spark is not known",
        r"less\.|\$0\.0002(?! \+ Spark)",
    ),
    (
        "calendar",
        "renderCalendar",
        {
            "dates": [["2026-01-01", 5, 0, -2], ["2026-01-02", 5, 0, 0], ["2026-01-20", 5, 0, 8]],
            **{"retention": 30, "audit": None, "now": "2026-02-01"},
        },
        "; 1 expires within 7 days, 1 overdue for removal.",
        "2 expire",
    ),
]


@pytest.mark.parametrize(("module", "function", "values", "said", "not_said"), PARTS)
def test_a_part_says_what_is_known_and_no_more(
    shown: Callable[[str], Page], module: str, function: str, values: Any, said: str, not_said: str
) -> None:
    text = rendered(shown, module, function, values, "card.textContent")
    assert said in text
    assert not re.search(not_said, text)


@pytest.mark.parametrize(
    ("new_rows", "limit", "is_cut"),
    [([0, 0, 0, 500, 1_000_000], 625, True), ([0, 0, 0, 500, 700], 756, False), ([0, 0], 1, False)],
)
def test_snapshots_without_a_change_hide_no_others_rows(
    shown: Callable[[str], Page], new_rows: list[int], limit: int, is_cut: bool
) -> None:
    publishes = [{"changed_rows": 0, "retained_rows": 0, "snapshot_id": "1", "new_rows": new} for new in new_rows]
    chart = "(card.observer.disconnect(), Promise.resolve().then(() => [card.chart.scales.y.max, card.textContent]))"
    found, text = rendered(shown, "charts", "renderRows", publishes, chart)
    assert (found, "cut off" in text) == (pytest.approx(limit), is_cut)


def test_durations_and_escaped_markup(shown: Callable[[str], Page]) -> None:
    seconds = [-3, 45.4, 119, 120, 7199, 7260, 3 * 86400 + 5 * 3600]
    expected = [format_duration(timedelta(seconds=s)) for s in seconds]  # as alerts have them
    assert script(shown, "formats", f"{seconds}.map((s) => m.duration(s))") == expected
    text = r"m.markdown(String.raw`**why**: \*\*now\*\* \[a\](b)`, 'x').map((one) => one.innerHTML)"
    assert script(shown, "markdown", text) == ["<strong>why</strong>: **now** [a](b)"]
