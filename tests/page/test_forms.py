"""Single parts of the page, and its forms of replay and rollback, in a real browser; Airflow's API is simulated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.freshness.incident import format_duration
from testkit.browser import Browser, Page
from tests.page.serving import DOWN, Api, serve, site

SHOWN_AT = str(datetime.now(UTC))
HERO = {
    "now": SHOWN_AT,
    "has_history": True,
    "deliveries": [{"state": "waiting", "arrived_at": SHOWN_AT}],
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
    ("task", "runs_spark"),
    [("dedup_existing", True), ("dedup_rebuilt", True), ("erase_rows", True), ("check_staging", False)],
)
def test_the_progress_of_the_job_is_shown_for_each_task_that_runs_spark(
    shown: Callable[[str], Page], task: str, runs_spark: bool
) -> None:
    running = {
        **{"dag_id": "sales_erase", "run_id": "1", "kind": "erase", "generation": 8, "taken_at": SHOWN_AT},
        "task": {"task_id": task, "state": "running", "start_date": SHOWN_AT},
        "progress": {"phase": "compare", "done": 12, "of": 730, "at": SHOWN_AT},
    }
    view = {**HERO, "has_history": False, "running": running}
    text = rendered(shown, "hero", "renderHero", view, "card.querySelector('.at-work').textContent")
    assert (", 12 of 730 Spark tasks" in text) is runs_spark


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
            "audit": None,
            "now": "2026-02-01",
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


NOW = datetime.now(UTC)
TODAY = NOW.date()
FORM = "document.querySelector('#replay form')"
BUTTON = "document.querySelector('#replay form button').textContent"
ANSWER = "document.querySelector('#replay .answer').textContent"


@pytest.fixture(scope="module")
def served() -> Iterator[Api]:
    api = Api()
    with serve(site(NOW, api)) as address:
        api.address = f"{address}/dedup-clone/#product_attributes"
        yield api


@pytest.fixture
def api(served: Api) -> Api:
    served.run += 1
    served.asked, served.states, served.log, served.tasks = [], [], [], []
    return served


def opened(browser: Browser, api: Api, reason: str = "why") -> Page:
    page = browser.new_page()
    page.go(api.address)
    page.wait_until(f"{FORM} !== null")
    page.fill("#replay input[required]", reason)
    return page


def test_selected_dates_are_replayed(browser: Browser, api: Api) -> None:
    api.states = ["running", "success"]
    page = opened(browser, api, "yesterday was wrong")
    days = [str(TODAY - timedelta(days=days)) for days in range(6)]
    page.fill("#replay input[placeholder]", f"{days[5]}..{days[3]} , {days[0]}")
    page.press("Enter")
    page.wait_until(f"{ANSWER}.startsWith('At work: ')")
    (asked,) = api.asked
    assert asked.pop("marker_generation").isdecimal()
    assert asked == {
        "dag_id": "product_attributes_publish",
        "dates": [f"{days[5]}..{days[3]}", days[0]],
        "dry_run": False,
        "reason": "yesterday was wrong",
        "snapshot_id": "2120",
    }


def test_a_snapshot_is_discarded(browser: Browser, api: Api) -> None:
    api.states = ["skipped"]
    page = opened(browser, api, "garbage")
    page.value("[...document.querySelectorAll('#replay input[type=checkbox]')].at(-1).click()")
    page.fill("#replay input[required]", "")
    page.press("Enter")
    page.wait_until(f"{ANSWER}.startsWith('Nothing was published: ')")
    (asked,) = api.asked
    assert (asked["discard"], asked["reason"], asked["snapshot_id"]) == (True, "garbage", "2120")


def test_a_dry_run_needs_no_reason_and_shows_its_result_as_text(browser: Browser, api: Api) -> None:
    api.states = ["running", "success"]
    page = opened(browser, api, "")
    assert page.value(BUTTON) == "Replay snapshot 2120"
    page.tab_to("e.type === 'checkbox' && e.value === 'on'")
    page.press("Space")
    assert page.value(BUTTON) == "Show what a replay of 2120 would do"
    page.tab_to("e.tagName === 'BUTTON'")
    page.press("Enter")
    shown = page.wait_until("document.querySelector('#replay .report')?.innerText")
    assert shown.startswith("resolve_publish: target would change <b>")
    cells = page.value("[...document.querySelectorAll('#replay .report td')].map((cell) => cell.textContent)")
    assert cells == ["live generation", "7 | 8"]
    assert page.value("document.querySelector('#replay .report strong').textContent") == "dry run"
    (asked,) = api.asked
    assert (asked["dry_run"], "dates" in asked, asked["reason"]) == (True, False, "dry run")
    assert page.value(ANSWER).startswith("Nothing was changed: ")
    assert page.problems == []


def failure(kind: str, text: str) -> list[dict[str, Any]]:
    return [{"event": "Task failed with exception", "error_detail": [{"exc_type": kind, "exc_value": text}]}]


NO_RETRY = {"event": "Retry policy decision", "action": "fail", "reason": "a retry would fail the same way"}


WAITS = "Waits until the run that works on the feed has ended: "
STOPPED = [
    {"task_id": "reconcile_failure", "state": "success"},
    {"task_id": "check_staging", "state": "failed", "end_date": "2026-02-01T10:00:00Z", "try_number": 2},
]
# Each: the states of the run's first task, its log, the tasks of the ended run, and what the form says, one text after
# the other.
OUTCOMES: dict[str, tuple[list[str], list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "refused": (
        ["failed"],
        [*failure("ConfigurationError", "no <b>"), NO_RETRY],
        [],
        ["Refused, and nothing was changed: no <b>"],
    ),
    "failed": (["failed"], failure("ConnectionError", "no <b>"), [], ["The run failed: no <b>"]),
    "failed without a log": (["failed"], [], [], ["the log of resolve_publish says why"]),
    "published": (
        ["success"],
        [],
        [{"task_id": "commit_generation", "state": "success"}],
        ["Readers see the result: "],
    ),
    "not published": (["success"], [], [{"task_id": "prune_state", "state": "skipped"}], ["Nothing was published: "]),
    "stopped": (["success"], failure("CheckFailed", "new_share"), STOPPED, ["The run failed: new_share"]),
    "nothing to do": (
        ["running", "skipped"],
        [{"event": "Skipping task.", "reason": "It is part of generation 120. <b>"}],
        [],
        ["Nothing was published: It is part of generation 120. <b> manual__"],
    ),
    "waits": (["queued", *["deferred"] * 3, "success"], [], [], [WAITS, "At work: manual__"]),
    "airflow does not answer": (["running", DOWN, "success"], [], [], ["At work: manual__"]),
}


@pytest.mark.parametrize(("states", "log", "tasks", "said"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_replay_is_followed_until_its_run_has_ended(
    browser: Browser, api: Api, states: list[str], log: list[Any], tasks: list[Any], said: list[str]
) -> None:
    api.states, api.log, api.tasks = [*states], log, tasks
    page = opened(browser, api)
    page.press("Enter")
    for words in said:
        page.wait_until(f"{ANSWER}.includes('{words}')")


def test_a_rollback_shows_the_difference_and_its_approval_and_keeps_its_outcome(browser: Browser, api: Api) -> None:
    api.states = ["success"]
    page = opened(browser, api)
    page.fill("#rollback input[required]", "bad prices")
    page.press("Enter")
    outcome = "document.querySelector('#rollback .answer').textContent"
    link = page.wait_until("document.querySelector('#rollback .answer.good a[href*=required_actions]')?.href")
    path = f"/dags/product_attributes_rollback/runs/manual__{api.run}/tasks/approve_rollback/required_actions"
    assert link.endswith(path)
    assert page.value("document.querySelector('#rollback .report').innerText").startswith("show_difference: ")
    assert api.asked == [{"dag_id": "product_attributes_rollback", "generation": 119, "reason": "bad prices"}]
    assert page.value("document.getElementById('rollback').dataset.busy") == "yes"
    api.tasks = [{"task_id": "commit_generation", "state": "success"}]
    page.wait_until(f"{outcome} === 'Readers see the result: manual__{api.run}'")
    assert page.value("document.getElementById('rollback').dataset.busy ?? 'no'") == "no"
    page.value("window.location.hash = '#store_visits'")
    page.wait_until("document.querySelector('#rollback .answer')?.textContent === ''")


def test_a_reason_of_spaces_is_refused(browser: Browser, api: Api) -> None:
    page = opened(browser, api)
    reason = "document.querySelector('#replay input[required]')"
    for text, is_valid in (("   ", False), ("why", True)):
        page.value(f"{reason}.value = '{text}'")
        assert page.value(f"{FORM}.checkValidity()") is is_valid
    assert api.asked == []
