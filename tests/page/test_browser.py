"""The page in a real browser, if one is installed: rendering, accessibility, and data that is never parsed as HTML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest

from dedup_clone.contract.records import to_json, to_plain
from dedup_clone.freshness.durations import format_duration
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.state.current import Current
from dedup_clone.state.store import StoredText
from testkit.browser import CHROMIUM, Browser, Page, open_browser
from tests.page.accessibility import AXE, faults
from tests.page.serving import application, approval, serve, site
from tests.shared import page_indexes
from tests.shared.page_store import MemoryStore, at_work

REPOSITORY = Path(__file__).parents[2]
SCREENSHOTS = Path(os.environ.get("DEDUP_CLONE_SCREENSHOTS") or REPOSITORY / ".local" / "screenshots")
EVIL = "<img src=x onerror=\"document.title='stolen'\"><b>bold</b>"
# Each: name, address, width in pixels, the system's theme. `make test` shows each state, width and theme once.
VIEWS = [
    ("fresh", "/dedup-clone/#product_attributes", 1600, "light"),
    ("late", "/dedup-clone/#store_visits", 1600, "light"),
    ("empty", "/dedup-clone/#worked_example", 1600, "light"),
    ("first", "/first/", 1600, "light"),
    ("unchecked", "/unchecked/", 1600, "light"),
    ("broken", "/broken/", 1600, "light"),
    ("nothing", "/nothing/", 1600, "light"),
    ("dark", "/dedup-clone/#product_attributes", 1600, "dark"),
    ("late-dark", "/dedup-clone/#store_visits", 1600, "dark"),
    ("narrow", "/dedup-clone/#product_attributes", 390, "light"),
    ("narrow-late-dark", "/viewer/#store_visits", 390, "dark"),
    ("narrow-empty", "/dedup-clone/#worked_example", 390, "light"),
]
QUICK_VIEWS = {"fresh", "empty", "first", "broken", "nothing", "narrow-late-dark"}
SHOWN = "(({ hidden, textContent }) => hidden || !textContent.startsWith('Reading'))(document.getElementById('notice'))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    now = datetime.now(UTC)
    late = page_indexes.late(now)
    refused = next(a for a in late.arrivals if a.reason)
    evil = replace(
        late,
        description=EVIL,
        arrivals=tuple(replace(a, reason=EVIL) if a is refused else a for a in late.arrivals),
    )
    shown = site(now)
    shown.mount("/evil", application(MemoryStore(evil)))
    few = page_indexes.make_index(12, 1, now=now)
    first = replace(few.records[0], new_rows=few.records[0].rows, lag_s=36 * 3600.0)
    feeds = [f"feed_{number:03}" for number in range(199)]
    many = MemoryStore(few, verdicts=tuple(page_indexes.verdict(f, now=now) for f in (*feeds, few.feed)))
    many.texts |= {f"{feed}/CURRENT": StoredText("{}", 1) for feed in feeds}
    shown.mount("/many", application(many))
    hours = (now + timedelta(hours=hour) for hour in count())  # each request is an hour after the one before
    vanished = MemoryStore(few, verdicts=(page_indexes.verdict(few.feed, now=now + timedelta(days=9)),))
    vanished.texts["vanished/CURRENT"] = StoredText("{}", 1)
    vanished.summaries["_freshness/vanished.json"] = vanished.summaries[f"_freshness/{few.feed}.json"]
    shown.mount("/vanished", application(vanished, now=lambda: next(hours)))
    shown.mount("/beginning", application(MemoryStore(replace(few, records=(first, *few.records[1:])))))
    with serve(shown) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def show(browser: Browser, address: str, **settings: object) -> Page:
    page = browser.new_page(**settings)
    page.go(address)
    page.wait_until(SHOWN)
    page.value(DRAWN)
    return page


@pytest.fixture(scope="module")
def shown(browser: Browser, address: str) -> Callable[[str], Page]:
    """The page at a path, wide and light: loaded once for all tests that look at it."""
    return cache(lambda path: show(browser, f"{address}{path}"))


def dom(page: Page) -> str:
    """The document after its scripts have run."""
    text: str = page.value("document.documentElement.outerHTML")
    return text


@pytest.mark.parametrize(
    ("name", "path", "width", "scheme"),
    [pytest.param(*view, id=view[0], marks=() if view[0] in QUICK_VIEWS else pytest.mark.exhaustive) for view in VIEWS],
)
def test_the_page_renders_without_console_messages_and_accessibility_faults(
    browser: Browser, address: str, shown: Callable[[str], Page], name: str, path: str, width: int, scheme: str
) -> None:
    is_plain = (width, scheme) == (1600, "light")
    page = shown(path) if is_plain else show(browser, f"{address}{path}", width=width, scheme=scheme)
    page.picture(SCREENSHOTS / f"{name}.png")
    assert page.value(OVERFLOW) == 0, "the page is wider than the window"
    assert faults(page) == []
    assert page.problems == []


def test_axe_has_the_recorded_hash_and_finds_faults(browser: Browser) -> None:
    recorded = (REPOSITORY / "docs" / "dependencies.md").read_text()
    assert sha256(AXE.read_bytes()).hexdigest() in recorded
    assert "Mozilla Public License" in (AXE.parent / "LICENSE").read_text()
    page = browser.new_page()
    page.go("data:text/html,<html lang=en><title>x</title><input><img src=x>")
    assert any(fault.startswith("critical: ") for fault in faults(page))


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


def test_durations_have_the_form_that_alerts_have(shown: Callable[[str], Page]) -> None:
    page = shown("/nothing/")
    seconds = [-3, 45.4, 119, 120, 7199, 7260, 3 * 86400 + 5 * 3600]
    text = page.value(f"import('./static/1/formats.js').then((m) => {seconds}.map((s) => m.duration(s)))")
    assert text == [format_duration(timedelta(seconds=s)) for s in seconds]


def test_a_feed_whose_file_is_invalid_from_the_beginning_is_red_and_says_what_to_do(
    shown: Callable[[str], Page],
) -> None:
    page = shown("/broken/")
    assert page.value("document.getElementById('hero').className") == "hero stopped"
    assert page.value("document.getElementById('notice').hidden") is True
    headline = page.value("document.querySelector('.headline').innerText")
    assert headline.split("\n")[0].startswith("Stopped")
    assert "The feed's file is invalid" in headline
    cards = page.value(
        "[...document.querySelectorAll('.card')].filter((c) => c.checkVisibility()).map((c) => c.innerText)"
    )
    assert len(cards) == 1
    assert "Line 3: no [keys]" in cards[0]
    assert "correct the file and deploy it" in cards[0]
    assert "feed_file_invalid" in cards[0]


HIDDEN = "document.getElementById('hero').hidden && document.getElementById('cards').hidden"
NOTICE = "document.getElementById('notice').innerText"
AS_OF = "document.getElementById('as-of').innerText"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


def test_nothing_of_another_feed_stays_where_a_feed_cannot_be_shown(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/vanished/#product_attributes")
    as_of = page.value(AS_OF)
    assert page.value(HIDDEN) is False
    page.value("location.hash = 'vanished'")
    assert "There is no such feed" in page.wait_until(f"{HIDDEN} && {NOTICE}")
    assert page.value(AS_OF) == as_of
    page.value("location.hash = 'product_attributes'")
    page.wait_until(f"!({HIDDEN}) && {AS_OF} !== '{as_of}'")


def test_while_airflow_cannot_be_reached_the_feeds_old_values_stay_with_their_time(
    browser: Browser, address: str
) -> None:
    page = show(browser, f"{address}/vanished/#product_attributes")
    as_of, offline = page.value(AS_OF), {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.send("Network.enable")
    page.send("Network.emulateNetworkConditions", offline=True, **offline)
    page.value(LOOK_AGAIN)
    assert "Airflow cannot be reached" in page.wait_until(NOTICE)
    assert (page.value(HIDDEN), page.value(AS_OF)) == (False, as_of)
    page.value("location.hash = 'vanished'")
    page.wait_until(HIDDEN)
    assert page.value(AS_OF) == as_of


def test_a_form_that_is_being_filled_in_stays_when_another_feed_gets_into_a_worse_state() -> None:
    now, seconds = datetime.now(UTC), count(step=10)
    names = ("product_attributes", "store_visits")
    fresh = tuple(page_indexes.verdict(name, now=now, check_interval_s=3600.0) for name in names)
    store = MemoryStore(*(replace(page_indexes.fresh(now), feed=name) for name in names), verdicts=fresh)
    late = page_indexes.verdict(names[1], FreshnessStatus.LATE, now, check_interval_s=3600.0)
    site_of_two = site(now)
    site_of_two.mount("/two", application(store, clock=lambda: float(next(seconds))))
    with serve(site_of_two) as address, TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        page = show(browser, f"{address}/two/")
        page.fill("#replay input[required]", "prices were wrong")
        store.summaries["_freshness/store_visits.json"] = json.dumps(to_plain(late.summary))
        page.value(LOOK_AGAIN)
        page.wait_until("document.querySelector('#feeds .dot.late') !== null")
        assert page.value("document.querySelector('#feeds [aria-current]').hash") == "#product_attributes"
        assert page.value("document.querySelector('#replay input[required]').value") == "prices were wrong"


def test_a_form_is_filled_with_a_delivery_that_arrived_since_somebody_began_to_fill_it_in() -> None:
    now, seconds = datetime.now(UTC), count(step=10)
    fresh = page_indexes.fresh(now)
    store = MemoryStore(fresh, verdicts=(page_indexes.verdict(fresh.feed, now=now, check_interval_s=3600.0),))
    moving = site(now)
    moving.mount("/moving", application(store, clock=lambda: float(next(seconds))))
    form = "document.querySelector('#replay form')"
    with serve(moving) as address, TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        page = show(browser, f"{address}/moving/")
        page.fill("#replay input[placeholder]", "2026-01-01")
        stopped = replace(page_indexes.late(now), feed=fresh.feed)
        store.texts[f"{fresh.feed}/index.json"] = StoredText(to_json(stopped), 2)
        page.value(LOOK_AGAIN)
        page.wait_until("document.querySelector('#incidents button') !== null")
        page.value("document.querySelector('#incidents button').click()")
        assert page.value(f"{form}.querySelector('select').selectedOptions[0]?.text ?? ''").startswith("2122, ")
        assert page.value(f"[...{form}.querySelectorAll('input:checked')].map((box) => box.value)") == ["new_share"]
        assert page.value("document.querySelector('#replay').dataset.busy") == "yes"


def test_data_is_never_parsed_as_html(shown: Callable[[str], Page]) -> None:
    page = dom(shown("/evil/#store_visits"))
    assert page.count("&lt;img src=x") == 2
    assert "<img" not in page
    assert "<b>" not in page
    assert "<title>Snapshots</title>" in page


def test_two_hundred_feeds_cost_as_many_requests_as_one(shown: Callable[[str], Page]) -> None:
    """Besides the page's files: the list, the chosen feed, and its approvals. The open page repeats them by itself."""
    requests = (
        "[...new Set(performance.getEntriesByType('resource')"
        ".map((one) => one.name.replace(/.*(dedup-clone|first|many)/, '')))]"
    )
    many, one = shown("/many/#product_attributes"), shown("/first/")
    assert many.value("document.querySelectorAll('#feeds a').length") == 200
    assert many.value(f"{requests}.filter((name) => name.includes('/api/')).length") == 3
    assert sorted(many.value(requests)) == sorted(one.value(requests))


def test_on_the_tab_of_a_dag_its_feed_is_shown(shown: Callable[[str], Page]) -> None:
    assert "Nothing is published yet." in dom(shown("/dedup-clone/?dag=worked_example_publish"))
    assert "The DAG somebody_elses belongs to no feed." in dom(shown("/dedup-clone/?dag=somebody_elses"))


def test_the_forms_are_disabled_for_a_viewer_who_is_told_why(shown: Callable[[str], Page]) -> None:
    page = dom(shown("/viewer/#product_attributes"))
    assert "Your role may look but not start product_attributes_publish." in page
    assert page.count('<fieldset disabled="">') == 2


def test_before_the_first_arrival_the_page_says_what_will_happen(shown: Callable[[str], Page]) -> None:
    assert "A feed appears here as soon as its first snapshot has arrived." in dom(shown("/nothing/"))


def test_what_needs_a_person_is_on_a_card_with_since_readers_next_step_and_runbook(
    shown: Callable[[str], Page],
) -> None:
    page = shown("/dedup-clone/#store_visits")
    cards = page.value("[...document.querySelectorAll('#incidents article')].map((one) => one.innerText)")
    assert [card.splitlines()[0].split()[0] for card in cards] == ["stopped", "waits", "alert", "alert"]
    stopped, asked, missed, refused = cards
    assert "Snapshot 2122 was stopped by a check" in stopped
    assert "at most 20.00% as configured" in stopped
    assert "Roll store_visits back to generation 119?" in asked
    assert "everybody who may edit runs of store_visits_rollback" in asked
    assert all(word in missed for word in ("Since", "Readers see", "snapshot 2120", "Next step"))
    assert re.search(r"\(1\d min\)", missed)
    assert "delivery [2121-1795000000000121] was refused" in refused.lower()
    links = page.value("[...document.querySelectorAll('#incidents a[target]')].map((a) => a.href)")
    assert links == [f"https://example.org/runbook.md#{kind}" for kind in ("promise_missed", "delivery_refused")]
    assert "Runbook\nfreshness SLA missed (promise_missed)" in missed
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
        "live": None, "sla_minutes": 60, "choices": {"publish_dag": "sales_publish"},
        "freshness": {"status": "at risk", "headline": "1 waits.", "incidents": found, "check_age_s": None},
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
        "freshness": {
            "status": "at risk", "headline": "1 waits.", "incidents": [paused], "check_age_s": 1, "waiting": 1,
        },
    }  # fmt: skip
    figures = shown("/nothing/").value(
        "import('./static/1/hero.js').then((m) => { const hero = document.createElement('section');"
        f" m.renderHero(hero, {json.dumps(view)});"
        " return [...hero.querySelectorAll('dl > div')].map((one) => one.textContent); })"
    )
    assert figures[-1] == "Waiting1at the last check, unpause the DAG"


def test_a_snapshot_that_a_check_stopped_leads_from_the_headline_to_what_to_do(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#store_visits")
    assert page.value("document.querySelector('#hero dd button').innerText") == "see why, and what to do"
    page.value("document.querySelector('#hero .headline button').click()")
    assert page.value("document.activeElement.innerText") == "Accept with a reason …"


AT_WORK = "document.querySelector('#hero .at-work')"


def test_the_run_at_work_is_shown_with_its_task_and_the_dates_that_are_done() -> None:
    """Twice: the page refreshes by itself, and the second time the job is further."""
    now, store, seconds = datetime.now(UTC), at_work(datetime.now(UTC)), count(step=10)
    shown_site = site(now)
    shown_site.mount("/moving", application(store, clock=lambda: float(next(seconds))))
    with serve(shown_site) as address, TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        page = show(browser, f"{address}/moving/")
        since = f"{now - timedelta(minutes=7):%H:%M}"
        assert page.value(f"{AT_WORK}.innerText").startswith(
            f"at work dedup_snapshot, 12 of 730 dates, since {since} phase compare, reported "
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


def test_each_time_is_shown_in_the_readers_zone_on_hover(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.send("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    page.go(f"{address}/unchecked/")
    page.wait_until(SHOWN)
    times = "[...document.querySelectorAll('{} time')].map((one) => [one.dateTime, one.title])"
    for part in ("#as-of", "#hero .headline", "#incidents h3", "#today .key", "#partitions", "#refused"):
        found = page.value(times.format(part))
        assert found, part
        for moment, title in found:
            local = datetime.fromisoformat(moment).astimezone(ZoneInfo("Asia/Kolkata"))
            assert f"{local:%-I:%M:%S %p} GMT+5:30" in title.replace("\u202f", " "), part
    texts = "[...document.querySelectorAll('{}')].map((one) => `${{one.textContent}} ${{one.title ?? ''}}`)"
    for part in ("#replay select[required] option", "#rollback option", "#today svg title"):
        found = page.value(texts.format(part))
        assert found, part
        assert all("GMT+5:30" in text for text in found), part
    page.value("document.getElementById('lag').chart.setCursor({left: 50, top: 50})")
    assert "GMT+5:30" in page.value("document.querySelector('#lag .readout').textContent")


def test_the_card_is_hidden_if_nothing_needs_attention(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    assert page.value("document.getElementById('incidents').closest('section').hidden") is True


def test_a_check_is_accepted_by_a_replay_that_is_filled_in_already(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#store_visits")
    page.value("document.querySelector('#incidents button').click()")
    form = "document.querySelector('#replay form')"
    assert page.value(f"{form}.querySelector('select').selectedOptions[0].text").startswith("2122, ")
    assert page.value(f"[...{form}.querySelectorAll('input:checked')].map((box) => box.value)") == ["new_share"]
    assert page.value("document.activeElement.required") is True


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


def test_a_delivery_of_too_many_dates_to_list_leaves_the_form_usable(shown: Callable[[str], Page]) -> None:
    text = (
        "import('./static/1/dates.js').then((m) => {"
        " const field = m.datesField({ partitions: [], retention: 730, today: '2026-02-01' });"
        " field.offer('1990-01-01..2025-12-31'); field.input.value = '2025-12-31';"
        " return [field.list.textContent, field.values()]; })"
    )
    assert shown("/nothing/").value(text) == ["1990-01-01..2025-12-31 has more than 10,000 dates.", ["2025-12-31"]]


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


def test_the_calendar_can_be_read_by_keyboard(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    page.value("document.querySelector('svg.calendar').focus()")
    newest = page.value("document.querySelector('#partitions .readout').textContent")
    page.press("ArrowLeft")
    before = page.value("document.querySelector('#partitions .readout').textContent")
    assert newest.startswith(str(datetime.now(UTC).date()))
    assert before != newest
    assert "rows" in before


def test_a_feed_a_stopped_snapshot_and_an_approval_are_reached_by_keyboard_alone(
    browser: Browser, address: str
) -> None:
    page = show(browser, f"{address}/dedup-clone/#product_attributes")
    page.tab_to("e.hash === '#store_visits'")
    page.press("Enter")
    page.wait_until("document.querySelector('#incidents button') !== null")
    assert page.value("document.activeElement.hash") == "#store_visits"
    page.tab_to("e.innerText === 'see why, and what to do'")
    page.press("Enter")
    assert page.value("document.activeElement.innerText") == "Accept with a reason …"
    page.press("Enter")
    page.wait_until("document.activeElement.required")
    page.send("Input.insertText", text="it is right")
    form = "document.querySelector('#replay form')"
    assert page.value(f"[{form}.checkValidity(), {form}.querySelector('input[required]').value]") == [
        True,
        "it is right",
    ]
    page.tab_to("e.innerText === 'Required Actions of this run'", shift=True)
    page.press("Enter")
    page.wait_until("location.pathname.endsWith('/tasks/approve_rollback/required_actions')")


def test_dates_are_chosen_by_keyboard_alone(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/dedup-clone/#product_attributes", width=390)
    page.tab_to("e.tagName === 'SUMMARY' && e.innerText.startsWith('Choose from the ')")
    page.press("Space")
    page.tab_to("e.type === 'checkbox'")
    page.press("Space")
    month = page.value("document.activeElement.value")
    assert page.value("document.querySelector('#replay input[placeholder]').value").startswith(month)
    page.tab_to("e.tagName === 'SUMMARY'")
    page.press("Enter")
    page.tab_to("e.type === 'checkbox'")
    page.press("Space")
    day = page.value("document.activeElement.value")
    assert (day[:7], page.value("document.activeElement.checked")) == (month, False)
    assert day not in page.value("document.querySelector('#replay input[placeholder]').value")
    assert page.value(OVERFLOW) == 0
