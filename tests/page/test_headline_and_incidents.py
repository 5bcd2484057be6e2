"""What the page says on top about a feed, and of what needs a person, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from dedup_clone.contract.records import to_json
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.state.current import Current
from dedup_clone.state.store import StoredText
from testkit.browser import Browser, Page
from tests.page.serving import application, approval, serve, site
from tests.page.shown_page import LOOK_AGAIN, dom, show
from tests.shared.page_indexes import verdict
from tests.shared.page_store import MemoryStore, at_work

AT_WORK = "document.querySelector('#hero .at-work')"


def test_the_verdict_and_its_age_are_on_top(shown: Callable[[str], Page]) -> None:
    page = dom(shown("/dedup-clone/#product_attributes"))
    assert "Readers see snapshot 2120, the newest one." in page
    assert re.search(r"checked \d+ (s|min) ago", page)
    assert page.count("<rect") > 700
    assert "<canvas" in page


def test_a_feed_that_the_watchdog_has_not_checked_is_unknown_and_says_so(shown: Callable[[str], Page]) -> None:
    page = dom(shown("/unchecked/"))
    assert '<span class="pill unknown">Unknown</span>' in page
    assert "The watchdog has not checked since " in page
    assert "Its last verdict was late: Readers see snapshot 2120; 1 more waits." in page
    assert "The watchdog has not checked this feed yet" in dom(shown("/first/"))


def test_a_feed_whose_file_is_invalid_from_the_beginning_is_red_and_says_what_to_do(
    shown: Callable[[str], Page],
) -> None:
    page = shown("/broken/")
    assert page.value("document.getElementById('hero').className") == "hero stopped"
    assert page.value("document.getElementById('notice').hidden") is True
    headline = page.value("document.querySelector('.headline').innerText")
    assert headline.split("\n")[0].startswith("Stopped")
    assert "The feed has no valid file" in headline
    cards = page.value(
        "[...document.querySelectorAll('.card')].filter((c) => c.checkVisibility()).map((c) => c.innerText)"
    )
    assert len(cards) == 1
    assert "Line 3: no [keys]" in cards[0]
    assert "correct the file and deploy it" in cards[0]
    assert "feed_file_invalid" in cards[0]


def test_a_feed_without_a_delivery_shows_what_delays_the_first_one(browser: Browser) -> None:
    now = datetime.now(UTC)
    paused = Incident(
        IncidentKind.WATCH_PAUSED, Severity.ALERT, now, "the watch DAG is paused", "no table yet", "unpause it.",
        dag_id="sales_watch",
    )  # fmt: skip
    checked = verdict("sales", FreshnessStatus.AT_RISK, now, headline="Nothing is published yet.", incidents=(paused,))
    store = MemoryStore(verdicts=(replace(checked, is_started=False),))
    store.report("sales", replace(paused, kind=IncidentKind.FEED_NOT_CHECKED, dag_id="freshness_watchdog"), now)
    shown_site = site(now)
    shown_site.mount("/before-the-first", application(store))
    with serve(shown_site) as address:
        page = show(browser, f"{address}/before-the-first/")
        assert page.value("document.getElementById('hero').className") == "hero at-risk"
        assert page.value("document.querySelector('#hero .headline a').pathname").endswith("/dags/sales_watch")
        cards = page.value(
            "[...document.querySelectorAll('.card')].filter((c) => c.checkVisibility()).map((c) => c.id)"
        )
        assert len(cards) == 1
        assert page.value("document.querySelectorAll('#incidents article').length") == 2
        assert page.problems == []


def test_an_empty_feed_says_where_and_how_the_first_snapshot_is_delivered(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#worked_example")
    assert page.value("document.querySelector('#hero pre').textContent").splitlines() == [
        "gs://landing/shop/attributes/snapshot_id=1/date=YYYY-MM-DD/*.parquet",
        "gs://landing/shop/attributes/snapshot_id=1/_SUCCESS",
    ]
    assert page.value("document.querySelector('#hero code').textContent") == "make land FEED=worked_example"
    cards = "[...document.querySelectorAll('.card')].filter((c) => c.checkVisibility()).map((c) => c.innerText)"
    assert [card.splitlines()[0] for card in page.value(cards)] == ["Arrivals today"]


def test_what_needs_a_person_is_on_a_card_with_since_readers_next_step_and_runbook(
    shown: Callable[[str], Page],
) -> None:
    page = shown("/dedup-clone/#store_visits")
    cards = page.value("[...document.querySelectorAll('#incidents article')].map((one) => one.innerText)")
    assert [card.splitlines()[0].split()[0] for card in cards] == ["stopped", "waits", "alert"]
    stopped, asked, refused = cards
    assert "Snapshot 2122 was stopped by a check" in stopped
    assert "at most 20.00% as configured" in stopped
    assert "Roll store_visits back to generation 119?" in asked
    assert "everybody who may edit runs of store_visits_rollback" in asked
    assert all(word in refused for word in ("Since", "Readers see", "snapshot 2120", "Next step"))
    assert re.search(r"\((89|9\d) min\)", refused)
    assert "delivery [2121-1795000000000121] was refused" in refused.lower()
    links = page.value("[...document.querySelectorAll('#incidents a[target]')].map((a) => a.href)")
    assert links == [f"https://example.org/runbook.md#{kind}" for kind in ("promise_missed", "delivery_refused")]
    # The SLA that the stopped run missed is a line of its card, not one more card.
    assert re.search(r"Incident\nfreshness SLA missed \(promise_missed\), since ", stopped)
    assert page.value("document.querySelector('#incidents time').title") != ""


@pytest.mark.parametrize(
    ("changes", "text", "path"),
    [
        (
            {"approvals": "asked"},
            "answer the approval",
            "sales_publish/runs/manual__1/tasks/approve_accepted",
        ),
        ({"kind": "publish_failed", "run_id": "publish__8"}, "see the failed run", "sales_publish/runs/publish__8"),
        ({"kind": "publish_paused", "run_id": ""}, "unpause the DAG", "sales_publish"),
    ],
    ids=["approval", "failed", "paused"],
)
def test_what_only_a_person_ends_has_a_link_in_the_headline_and_at_waiting(
    shown: Callable[[str], Page], changes: dict[str, str], text: str, path: str
) -> None:
    asked = [approval(datetime.now(UTC), "sales_publish", "approve_accepted")] if "approvals" in changes else []
    found = [{"dag_id": "sales_publish", **changes}] if "kind" in changes else []
    now = str(datetime.now(UTC))
    view = {
        "now": now, "has_index": True, "approvals": asked, "stopped": None, "waiting": [{"arrived_at": now}],
        "live": None, "replayable": [{}], "sla_minutes": 60, "choices": {"publish_dag": "sales_publish"},
        "freshness": {"status": "at risk", "headline": "1 waits.", "incidents": found, "check_age_s": 1, "waiting": 1},
    }  # fmt: skip
    links = shown("/nothing/").value(
        "import('./static/1/hero.js').then((m) => { const hero = document.createElement('section');"
        f" m.renderHero(hero, {json.dumps(view)});"
        " return ['.headline a', 'dd a'].map((one) => hero.querySelector(one)).map((a) => [a.text, a.pathname]); })"
    )
    assert [link[0] for link in links] == [text] * 2
    assert all(f"/dags/{path}" in link[1] for link in links)


def test_deliveries_that_the_watch_dag_has_not_registered_are_shown_as_waiting(shown: Callable[[str], Page]) -> None:
    now = str(datetime.now(UTC))
    paused = {"dag_id": "sales_watch", "run_id": "", "kind": "watch_paused"}
    view = {
        "now": now, "has_index": True, "approvals": [], "stopped": None, "waiting": [], "live": None, "sla_minutes": 60,
        "replayable": [{}],
        "freshness": {
            "status": "at risk", "headline": "1 waits.", "incidents": [paused], "check_age_s": 1, "waiting": 1,
        },
    }  # fmt: skip
    figures = shown("/nothing/").value(
        "import('./static/1/hero.js').then((m) => { const hero = document.createElement('section');"
        f" m.renderHero(hero, {json.dumps(view)});"
        " return [...hero.querySelectorAll('dl > div')].map((one) => one.textContent); })"
    )
    assert figures[-1] == "Waiting1not registered yet, unpause the DAG"


def test_a_snapshot_that_a_check_stopped_leads_from_the_headline_to_what_to_do(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#store_visits")
    assert page.value("document.querySelector('#hero dd button').innerText") == "see why, and what to do"
    page.value("document.querySelector('#hero .headline button').click()")
    assert page.value("document.activeElement.innerText") == "Accept with a reason …"


@pytest.mark.parametrize(
    ("task", "has_dates"),
    [("dedup_existing", True), ("dedup_rebuilt", True), ("erase_rows", True), ("check_staging", False)],
)
def test_the_dates_that_are_done_are_shown_for_each_task_that_runs_the_spark_job(
    shown: Callable[[str], Page], task: str, has_dates: bool
) -> None:
    now = str(datetime.now(UTC))
    at_task = {"task_id": task, "state": "running", "start_date": now}
    running = {
        "dag_id": "sales_erase", "run_id": "1", "kind": "erase", "generation": 8, "taken_at": now, "task": at_task,
        "dates": {"phase": "compare", "done": 12, "of": 730, "at": now},
    }  # fmt: skip
    view = {
        "now": now, "has_index": False, "approvals": [], "stopped": None, "running": running,
        "freshness": {"status": "fresh", "headline": "", "incidents": [], "check_age_s": None},
    }  # fmt: skip
    text = shown("/nothing/").value(
        "import('./static/1/hero.js').then((m) => { const hero = document.createElement('section');"
        f" m.renderHero(hero, {json.dumps(view)}); return hero.querySelector('.at-work').textContent; }})"
    )
    assert (", 12 of 730 dates" in text) is has_dates


def test_the_run_at_work_is_shown_with_its_task_and_the_dates_that_are_done(
    browser: Browser,
) -> None:
    """Twice: the page refreshes by itself, and the second time the job is further."""
    now, store, seconds = datetime.now(UTC), at_work(datetime.now(UTC)), count(step=10)
    shown_site = site(now)
    shown_site.mount("/moving", application(store, clock=lambda: float(next(seconds))))
    with serve(shown_site) as address:
        page = show(browser, f"{address}/moving/")
        since = now - timedelta(minutes=7)
        day = "" if since.date() == now.date() else f"{since:%Y-%m-%d} "
        assert page.value(f"{AT_WORK}.innerText").startswith(
            f"at work dedup_snapshot, 12 of 730 dates, since {day}{since:%H:%M} phase compare, reported "
        )
        assert page.value(f"{AT_WORK}.querySelector('a').pathname").endswith("_publish/runs/publish__1")
        name = "product_attributes/attempts/00000121-a/progress.json"
        store.texts[name] = StoredText(store.texts[name].text.replace("12", "15"), 2)
        page.value(LOOK_AGAIN)
        page.wait_until(f"{AT_WORK}.innerText.includes('15 of 730 dates')")
        store.texts["product_attributes/CURRENT"] = StoredText(to_json(Current(1, "x", 121, "digest", 121, None)), 2)
        page.value(LOOK_AGAIN)
        page.wait_until(f"{AT_WORK} === null")
        assert page.problems == []


def test_an_open_approval_stays_while_airflow_does_not_answer(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/dedup-clone/#store_visits")
    shown = "document.getElementById('incidents').innerText.includes('Roll store_visits back')"
    assert page.value(shown) is True
    page.value("document.querySelector('#as-of *').isOld = true")
    page.value(
        "window.fetch = ((ask) => (path, ...more) => (path.includes('hitlDetails') "
        "? Promise.resolve(new Response('', { status: 503 })) : ask(path, ...more)))(window.fetch), true"
    )
    page.value(LOOK_AGAIN)
    page.wait_until("!document.querySelector('#as-of *').isOld")
    assert page.value(shown) is True


def test_the_card_is_hidden_if_nothing_needs_attention(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    assert page.value("document.getElementById('incidents').closest('section').hidden") is True


def test_a_check_is_accepted_by_a_replay_that_is_filled_in_already(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#store_visits")
    page.value("document.querySelector('#incidents button').click()")
    form = "document.querySelector('#replay form')"
    # What somebody entered for another snapshot does not stay.
    page.value(
        f"{form}.querySelector('input[placeholder]').value = '2026-01-01',"
        f" [...{form}.querySelectorAll('input[type=checkbox]')].at(-1).click()"
    )
    page.value("document.querySelector('#incidents button').click()")
    assert page.value(f"{form}.querySelector('input[placeholder]').value") == ""
    assert page.value(f"{form}.querySelector('select').selectedOptions[0].text").startswith("2122, ")
    assert page.value(f"[...{form}.querySelectorAll('input:checked')].map((box) => box.value)") == ["new_share"]
    assert page.value("document.activeElement.required") is True
