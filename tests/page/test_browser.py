"""The page in a real browser: rendering, accessibility, its feeds, and data that is never parsed as HTML."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dedup_clone.contract.records import to_json, to_plain
from dedup_clone.freshness.durations import format_duration
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.state.index import DeliveryState
from dedup_clone.state.store import StoredText
from testkit.browser import Browser, Page
from tests.page.accessibility import AXE, faults
from tests.page.serving import application, serve, site
from tests.page.shown_page import LOOK_AGAIN, OVERFLOW, REPOSITORY, SHOWN, dom, show
from tests.shared import page_indexes
from tests.shared.page_store import MemoryStore

SCREENSHOTS = Path(os.environ.get("DEDUP_CLONE_SCREENSHOTS") or REPOSITORY / ".local" / "screenshots")
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
HIDDEN = "document.getElementById('hero').hidden && document.getElementById('cards').hidden"
NOTICE = "document.getElementById('notice').innerText"
AS_OF = "document.getElementById('as-of').innerText"


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


def test_durations_have_the_form_that_alerts_have(shown: Callable[[str], Page]) -> None:
    page = shown("/nothing/")
    seconds = [-3, 45.4, 119, 120, 7199, 7260, 3 * 86400 + 5 * 3600]
    text = page.value(f"import('./static/1/formats.js').then((m) => {seconds}.map((s) => m.duration(s)))")
    assert text == [format_duration(timedelta(seconds=s)) for s in seconds]


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


def test_a_form_that_is_being_filled_in_stays_when_another_feed_gets_into_a_worse_state(
    browser: Browser,
) -> None:
    now, seconds = datetime.now(UTC), count(step=10)
    names = ("product_attributes", "store_visits")
    fresh = tuple(page_indexes.verdict(name, now=now, check_interval_s=3600.0) for name in names)
    store = MemoryStore(*(replace(page_indexes.fresh(now), feed=name) for name in names), verdicts=fresh)
    late = page_indexes.verdict(names[1], FreshnessStatus.LATE, now, check_interval_s=3600.0)
    site_of_two = site(now)
    site_of_two.mount("/two", application(store, clock=lambda: float(next(seconds))))
    with serve(site_of_two) as address:
        page = show(browser, f"{address}/two/")
        page.fill("#replay input[required]", "prices were wrong")
        store.summaries["_freshness/store_visits.json"] = json.dumps(to_plain(late.summary))
        page.value(LOOK_AGAIN)
        page.wait_until("document.querySelector('#feeds .dot.late') !== null")
        assert page.value("document.querySelector('#feeds [aria-current]').hash") == "#product_attributes"
        assert page.value("document.querySelector('#replay input[required]').value") == "prices were wrong"


def test_a_form_is_filled_with_a_delivery_that_arrived_since_somebody_began_to_fill_it_in(
    browser: Browser,
) -> None:
    now, seconds = datetime.now(UTC), count(step=10)
    fresh = page_indexes.fresh(now)
    store = MemoryStore(fresh, verdicts=(page_indexes.verdict(fresh.feed, now=now, check_interval_s=3600.0),))
    moving = site(now)
    moving.mount("/moving", application(store, clock=lambda: float(next(seconds))))
    form = "document.querySelector('#replay form')"
    with serve(moving) as address:
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


def test_a_held_snapshot_has_one_card_from_which_a_person_accepts_or_discards_it(browser: Browser) -> None:
    now = datetime.now(UTC)
    late = page_indexes.late(now)
    (*others, waits) = late.arrivals
    arrivals = (*others, replace(waits, state=DeliveryState.HELD))
    held = replace(late, stopped=None, held=(late.stopped,), arrivals=arrivals)
    incident = Incident(IncidentKind.DELIVERY_HELD, Severity.ALERT, now, "it is held", "7", "look", subject="2122-1")
    found = page_indexes.verdict(late.feed, FreshnessStatus.AT_RISK, now, incidents=(incident,))
    serving = site(now)
    serving.mount("/held", application(MemoryStore(held, verdicts=(found,))))
    form = "document.querySelector('#replay form')"
    checked = f"[...{form}.querySelectorAll('input:checked')].map((box) => box.parentNode.innerText.split(':')[0])"
    with serve(serving) as address:
        page = show(browser, f"{address}/held/")
        assert page.value("document.querySelectorAll('#incidents article.alert').length") == 1
        figures = page.value("[...document.querySelectorAll('#hero dl > div')].map((one) => one.textContent)")
        assert figures[-1] == "Held1see why, and what to do"
        assert page.value("document.querySelector('#hero .headline button').innerText") == "see why, and what to do"
        accept, discard = (f"document.querySelectorAll('#incidents article.alert button')[{n}]" for n in (0, 1))
        page.value(f"{discard}.click()")
        assert page.value(f"{form}.lastChild.lastChild.textContent") == "Discard snapshot 2122"
        assert page.value(checked) == ["Discard"]
        page.value(f"{accept}.click()")
        assert page.value(f"{form}.lastChild.lastChild.textContent") == "Replay snapshot 2122"
        assert page.value(checked) == ["new_share"]
        assert page.problems == []


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
    assert "A feed appears here as soon as the DAG freshness_watchdog has checked it." in dom(shown("/nothing/"))


def test_each_time_is_shown_in_the_readers_zone_on_hover(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.send("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    page.go(f"{address}/unchecked/")
    page.wait_until(SHOWN)
    times = "[...document.querySelectorAll('{} time')].map((one) => [one.dateTime, one.title])"
    for part in ("#as-of", "#hero .headline", "#incidents", "#today .key", "#partitions", "#refused"):
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
