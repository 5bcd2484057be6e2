"""The replay and rollback forms in a real browser, by keyboard, against a simulated REST API that records requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from testkit.browser import Browser, Page
from tests.page.fake_airflow_api import DOWN, Api
from tests.page.serving import serve, site

FORM = "document.querySelector('#replay form')"
BUTTON = "document.querySelector('#replay form button').textContent"
DATES = "document.querySelector('#replay input[placeholder]')"
ANSWER = "document.querySelector('#replay .answer').textContent"


@pytest.fixture(scope="module")
def served() -> Iterator[Api]:
    found = Api()
    shown = site(datetime.now(UTC))
    shown.mount("/api/v2", found.routes())
    shown.router.routes.insert(0, shown.router.routes.pop())  # before the site's own answers
    with serve(shown) as address:
        found.address = f"{address}/dedup-clone/#product_attributes"
        yield found


@pytest.fixture
def api(served: Api) -> Api:
    served.run += 1
    served.asked, served.states, served.log, served.tasks = [], [], [], []
    return served


def fill_form(browser: Browser, api: Api, dates: str) -> Page:
    page = browser.new_page()
    page.go(api.address)
    page.wait_until(f"{FORM} !== null")
    page.fill("#replay input[placeholder]", dates)
    return page


@pytest.fixture(scope="module")
def unsent(browser: Browser, served: Api) -> Page:
    """One form, for tests that start no run by it."""
    page = fill_form(browser, served, "")
    page.fill("#replay input[required]", "why")
    return page


def refill_dates(page: Page, text: str) -> None:
    page.value(f"{DATES}.value = '', {DATES}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    page.fill("#replay input[placeholder]", text)


def choose_dry_run(page: Page) -> None:
    """By keyboard, from the field of the dates on."""
    page.tab_to("e.type === 'checkbox' && e.value === 'on'")
    page.press("Space")


def test_selected_dates_are_replayed(browser: Browser, api: Api) -> None:
    api.states = ["running", "success"]
    page = fill_form(browser, api, "2026-01-01..2026-01-31 , 2026-02-03")
    page.fill("#replay input[required]", "yesterday was wrong")
    page.press("Enter")
    page.wait_until("document.querySelector('#replay .answer').textContent.startsWith('At work: ')")
    (asked,) = api.asked
    assert asked["dag_id"] == "product_attributes_publish"
    assert asked["dates"] == ["2026-01-01..2026-01-31", "2026-02-03"]
    assert (asked["dry_run"], asked["reason"]) == (False, "yesterday was wrong")
    assert sorted(asked) == ["dag_id", "dates", "dry_run", "marker_generation", "reason", "snapshot_id"]


def test_a_held_snapshot_is_discarded(browser: Browser, api: Api) -> None:
    api.states = ["skipped"]
    page = fill_form(browser, api, "")
    page.value("[...document.querySelectorAll('#replay input[type=checkbox]')].at(-1).click()")
    page.fill("#replay input[required]", "garbage")
    page.press("Enter")
    page.wait_until("document.querySelector('#replay .answer').textContent.startsWith('Nothing was published: ')")
    (asked,) = api.asked
    assert (asked["discard"], asked["reason"], asked["snapshot_id"]) == (True, "garbage", "2120")


def test_a_dry_run_says_so_on_the_button_needs_no_reason_and_shows_its_result_as_text(
    browser: Browser, api: Api
) -> None:
    api.states = ["running", "success"]
    page = fill_form(browser, api, "")
    assert page.value(BUTTON) == "Replay snapshot 2120"
    choose_dry_run(page)
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
    assert page.value("document.querySelector('#replay .answer').textContent").startswith("Nothing was changed: ")
    assert page.problems == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("AirflowFailException", "Refused, and nothing was changed: no <b>"),
        ("ConnectionError", "The run failed: no <b>"),
    ],
    ids=["refused", "failed"],
)
def test_a_replay_whose_first_task_fails_shows_the_message_itself(
    browser: Browser, api: Api, error: str, message: str
) -> None:
    api.states = ["failed"]
    api.log = [{"event": "Task failed", "error_detail": [{"exc_type": error, "exc_value": "no <b>"}]}]
    page = fill_form(browser, api, "2026-01-01")
    page.fill("#replay input[required]", "why")
    page.press("Enter")
    page.wait_until("document.querySelector('#replay .answer.bad') !== null")
    assert page.value(ANSWER) == message


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{"task_id": "commit_generation", "state": "success"}], "Readers see the result: manual__{}"),
        ([{"task_id": "prune_state", "state": "skipped"}], "Nothing was published: manual__{}"),
        (
            [
                {"task_id": "reconcile_failure", "state": "success"},
                {"task_id": "check_staging", "state": "failed", "end_date": "2026-02-01T10:00:00Z", "try_number": 2},
            ],
            "The run failed: new_share <b>",
        ),
    ],
    ids=["published", "not published", "stopped by a check"],
)
def test_a_replay_is_followed_until_its_run_has_ended(
    browser: Browser, api: Api, tasks: list[dict[str, object]], message: str
) -> None:
    api.states, api.tasks = ["success"], tasks
    api.log = [{"event": "Task failed", "error_detail": [{"exc_type": "CheckFailed", "exc_value": "new_share <b>"}]}]
    page = fill_form(browser, api, "")
    page.fill("#replay input[required]", "why")
    page.press("Enter")
    expected = message.format(api.run)
    assert page.wait_until(f"{ANSWER} === '{expected}'") is True


def test_the_form_of_a_rollback_that_was_made_can_be_rendered_anew_and_its_outcome_stays(
    browser: Browser, api: Api
) -> None:
    api.states = ["success"]
    page = fill_form(browser, api, "")
    page.fill("#rollback input[required]", "bad prices")
    page.press("Enter")
    outcome = "document.querySelector('#rollback .answer').textContent"
    page.wait_until(f"{outcome}.startsWith('Nothing has changed yet.')")
    assert page.value("document.getElementById('rollback').dataset.busy") == "yes"
    api.tasks = [{"task_id": "commit_generation", "state": "success"}]
    page.wait_until(f"{outcome} === 'Readers see the result: manual__{api.run}'")
    assert page.value("document.getElementById('rollback').dataset.busy ?? 'no'") == "no"
    page.value("window.location.hash = '#store_visits'")
    page.wait_until("document.querySelector('#rollback .answer')?.textContent === ''")


def test_a_reason_of_spaces_is_refused_by_the_form(unsent: Page, api: Api) -> None:
    refill_dates(unsent, "")
    reason = "document.querySelector('#replay input[required]')"
    unsent.value(f"{reason}.value = '   '")
    unsent.press("Enter")
    assert unsent.value(f"{FORM}.checkValidity()") is False
    unsent.value(f"{reason}.value = 'why'")
    assert unsent.value(f"{FORM}.checkValidity()") is True
    assert api.asked == []


def test_escaped_markup_in_what_a_task_returns_stays_text(unsent: Page) -> None:
    text = (
        "import('./static/1/markdown.js').then((m) => m.markdown(String.raw`**why**: \\*\\*now\\*\\* \\[a\\](b)`, 'x')"
        ".map((one) => one.innerHTML))"
    )
    assert unsent.value(text) == ["<strong>why</strong>: **now** [a](b)"]


def test_a_replay_that_has_nothing_to_publish_says_why(browser: Browser, api: Api) -> None:
    api.states = ["running", "skipped"]
    api.log = [{"event": "Skipping task.", "reason": "Delivery [2120-1] is part of generation 120 already. <b>"}]
    page = fill_form(browser, api, "")
    page.fill("#replay input[required]", "why")
    page.press("Enter")
    found = page.wait_until(f"{ANSWER}.startsWith('Nothing was published') && {ANSWER}")
    assert found == (
        f"Nothing was published: Delivery [2120-1] is part of generation 120 already. <b> manual__{api.run}"
    )


def test_a_replay_that_waits_for_another_run_says_so_until_it_is_at_work(browser: Browser, api: Api) -> None:
    api.states = ["queued", *["deferred"] * 3, "success"]
    page = fill_form(browser, api, "")
    page.fill("#replay input[required]", "why")
    page.press("Enter")
    page.wait_until(f"{ANSWER}.startsWith('Waits until the run that works on the feed has ended: ')")
    assert page.value("document.querySelector('#replay fieldset').disabled") is False
    assert page.wait_until(f"{ANSWER}.startsWith('At work: ') && {ANSWER}") == f"At work: manual__{api.run}"


def test_a_replay_is_followed_although_airflow_does_not_answer_for_a_while(browser: Browser, api: Api) -> None:
    api.states = ["running", DOWN, "success"]
    page = fill_form(browser, api, "")
    page.fill("#replay input[required]", "why")
    page.press("Enter")
    assert page.wait_until(f"{ANSWER}.startsWith('At work: ') && {ANSWER}") == f"At work: manual__{api.run}"


def test_a_refused_run_whose_log_is_missing_says_where_to_look(browser: Browser, api: Api) -> None:
    api.states = ["failed"]
    page = fill_form(browser, api, "2026-01-01")
    choose_dry_run(page)
    page.tab_to("e.tagName === 'BUTTON'")
    page.press("Enter")
    page.wait_until("document.querySelector('#replay .answer.bad') !== null")
    assert "the log of resolve_publish says why" in page.value("document.querySelector('#replay .answer').textContent")


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01...2026-02-01", "2026-01-01 2026-01-02"])
def test_what_is_no_date_is_refused_by_the_form(unsent: Page, api: Api, text: str) -> None:
    refill_dates(unsent, text)
    unsent.press("Enter")
    assert unsent.value(f"{DATES}.validationMessage").startswith(f"{text} is no date")
    assert unsent.value(f"{FORM}.checkValidity()") is False
    assert api.asked == []


def test_dates_are_chosen_from_those_of_the_delivery_with_their_state_in_the_table(unsent: Page) -> None:
    page = unsent
    refill_dates(page, "")
    today = datetime.now(UTC).date()
    option = "[...document.querySelectorAll('#replay .day-option')].find((label) => label.textContent.startsWith('{}'))"
    page.value("[...document.querySelectorAll('#replay .months summary')].forEach((one) => one.click())")
    newest, expired = option.format(today), option.format(today - timedelta(days=740))
    assert re.match(rf"{today} live: [0-9,]+ rows, [0-9,]+ retained$", page.value(f"{newest}.textContent"))
    assert page.value(f"{expired}.textContent").endswith("older than the retention")
    assert page.value(f"{expired}.querySelector('input').disabled") is True
    for day in (today, today - timedelta(days=1)):
        page.value(f"{option.format(day)}.querySelector('input').click()")
    assert page.value(f"{DATES}.value") == f"{today - timedelta(days=1)}..{today}"


@pytest.mark.parametrize(
    ("days", "message"), [(-1, "This delivery has no "), (740, "is older than the retention of 730 days.")]
)
def test_a_date_that_cannot_be_replayed_is_refused_before_a_run_starts(
    unsent: Page, api: Api, days: int, message: str
) -> None:
    refill_dates(unsent, str(datetime.now(UTC).date() - timedelta(days=days)))
    unsent.press("Enter")
    assert message in unsent.value(f"{DATES}.validationMessage")
    assert api.asked == []


def test_a_delivery_of_too_many_dates_to_list_leaves_the_form_usable(unsent: Page) -> None:
    text = (
        "import('./static/1/dates.js').then((m) => {"
        " const field = m.datesField({ partitions: [], retention: 730, today: '2026-02-01' });"
        " field.offer('1990-01-01..2025-12-31'); field.input.value = '2025-12-31';"
        " return [field.list.textContent, field.values()]; })"
    )
    assert unsent.value(text) == ["1990-01-01..2025-12-31 has more than 10,000 dates.", ["2025-12-31"]]


def test_a_delivery_whose_dates_are_not_listed_says_so_and_no_date_is_refused(unsent: Page) -> None:
    text = (
        "import('./static/1/dates.js').then((m) => {"
        " const field = m.datesField({ partitions: [], retention: 730, today: '2026-02-01' });"
        " field.offer(null); field.enter(['2026-01-07']);"
        " return [field.list.textContent, field.input.validationMessage]; })"
    )
    words, problem = unsent.value(text)
    assert "are not listed here, because it and newer deliveries have too many dates with gaps" in words
    assert problem == ""


def test_thousands_of_dates_are_validated_in_linear_time_and_a_message_names_a_few(unsent: Page) -> None:
    """Twenty times as many dates take about twenty times as long; in quadratic time, 400 times as long."""
    dates = [str(date(2005, 1, 1) + timedelta(days=2 * number)) for number in range(6000)]
    text = (
        "import('./static/1/dates.js').then((m) => { const dates = %s;"
        " const field = m.datesField({ partitions: [], retention: 20000, today: '2026-02-01' });"
        " const seconds = (some, times) => { field.offer(some.join(', ')); const begin = performance.now();"
        "  for (let i = 0; i < times; i += 1) field.enter(some); return performance.now() - begin; };"
        " const quickest = (some, times) => Math.min(...Array.from({ length: 7 }, () => seconds(some, times)));"
        " const [few, all] = [quickest(dates.slice(0, 300), 20), quickest(dates, 1)];"
        " field.enter(['2005-01-02']); return [few, all, field.input.validationMessage]; })"
    )
    few, every, problem = unsent.value(text % dates)
    assert every < 5 * few
    assert problem.startswith("This delivery has no 2005-01-02: it has 2005-01-01, 2005-01-03, ")
    assert problem.endswith(", 2005-01-19 and 5990 more ranges.")


def test_a_requested_rollback_shows_the_difference_and_a_link_to_the_approval(browser: Browser, api: Api) -> None:
    api.states = ["success"]
    page = fill_form(browser, api, "")
    page.fill("#rollback input[required]", "bad prices")
    page.press("Enter")
    link = page.wait_until("document.querySelector('#rollback .answer.good a[href*=required_actions]')?.href")
    assert link.endswith(
        f"/dags/product_attributes_rollback/runs/manual__{api.run}/tasks/approve_rollback/required_actions"
    )
    assert page.value("document.querySelector('#rollback .report').innerText").startswith("show_difference: ")
    assert api.asked == [{"dag_id": "product_attributes_rollback", "generation": 119, "reason": "bad prices"}]
