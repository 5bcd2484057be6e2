"""The page in a real browser: its states, what a person does with it, by keyboard too, and data that is never HTML."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dedup_clone.contract.records import to_json
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.state.current import Current
from dedup_clone.state.store import StoredText
from testkit.browser import Browser, Page
from tests.page.conftest import SHOWN, show
from tests.page.serving import faults, serve, site
from tests.shared import page_feeds
from tests.shared.page_store import MemoryStore, at_work

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
HIDDEN = "document.getElementById('hero').hidden && document.getElementById('cards').hidden"
NOTICE = "document.getElementById('notice').innerText"
AS_OF = "document.getElementById('as-of').innerText"
FORM = "document.querySelector('#replay form')"
INCIDENTS = "[...document.querySelectorAll('#incidents article')].map((one) => one.innerText)"
CARDS = "[...document.querySelectorAll('.card')].filter((card) => card.checkVisibility()).map((card) => card.innerText)"


def dom(page: Page) -> str:
    """The document after its scripts have run."""
    text: str = page.value("document.documentElement.outerHTML")
    return text


# Each: an address, the window's width in pixels, the system's theme.
VIEWS = [
    ("/dedup-clone/#product_attributes", 1600, "light"),
    ("/dedup-clone/#store_visits", 1600, "dark"),
    ("/dedup-clone/#worked_example", 1600, "light"),
    ("/first/", 1600, "light"),
    ("/unchecked/", 1600, "light"),
    ("/broken/", 1600, "light"),
    ("/before-the-first/", 1600, "light"),
    ("/nothing/", 1600, "light"),
    ("/dedup-clone/#product_attributes", 390, "light"),
    ("/viewer/#store_visits", 390, "dark"),
]


@pytest.mark.parametrize(("path", "width", "scheme"), VIEWS, ids=str)
def test_each_state_fits_the_window_and_has_no_faults(
    browser: Browser, address: str, shown: Callable[[str], Page], path: str, width: int, scheme: str
) -> None:
    is_plain = (width, scheme) == (1600, "light")
    page = shown(path) if is_plain else show(browser, f"{address}{path}", width=width, scheme=scheme)
    assert page.value(OVERFLOW) == 0, "the page is wider than the window"
    assert faults(page) == []
    assert page.problems == []


# Each: an address, an element of the page, and what it says.
STATES = [
    ("/dedup-clone/#product_attributes", "hero", ["Readers see snapshot 2120 (generation 120).", "checked "]),
    (
        "/dedup-clone/?dag=worked_example_publish",
        "hero",
        ["Readers see no table yet", "make land FEED=worked_ex"],
    ),
    ("/dedup-clone/#worked_example", "hero", ["gs://landing/shop/attributes/snapshot_id=1/_SUCCESS"]),
    ("/dedup-clone/?dag=somebody_elses", "notice", ["The DAG somebody_elses belongs to no feed."]),
    ("/unchecked/", "hero", ["UNKNOWN", "The watchdog has not checked since ", "Its last verdict was late"]),
    ("/never-checked/", "hero", ["UNKNOWN", "no check has succeeded yet"]),
    ("/broken/", "hero", ["STOPPED", "What to do: correct the file and deploy it"]),
    ("/broken/", "incidents", ["Line 3: no [keys]", "correct the file and deploy it", "stopped-feed_file_invalid"]),
    ("/nothing/", "notice", ["no feed that you may see", "as soon as the DAG freshness_watchdog has checked it"]),
    ("/viewer/#product_attributes", "replay", ["Your role may look but not start product_attributes_publish."]),
    ("/dedup-clone/#product_attributes", "cost", ["Spark is $5.14 of it"]),
    ("/beginning/", "rows", ["1 taller bar is cut off, up to 312.9B rows"]),
    ("/beginning/", "lag", [", up to 36 h 00 min"]),
]


@pytest.mark.parametrize(("path", "element", "said"), STATES)
def test_what_a_state_says(shown: Callable[[str], Page], path: str, element: str, said: list[str]) -> None:
    text = shown(path).value(f"document.getElementById('{element}').innerText")
    assert [words for words in said if words.lower() not in text.lower()] == []


def test_a_state_shows_only_the_cards_that_it_needs(shown: Callable[[str], Page]) -> None:
    for path, first_line in (("/broken/", "Needs attention"), ("/dedup-clone/#worked_example", "Arrivals today")):
        (card,) = shown(path).value(CARDS)
        assert card.splitlines()[0] == first_line
    page = shown("/before-the-first/")
    assert len(page.value(CARDS)) == 1
    assert len(page.value(INCIDENTS)) == 2
    assert page.value("document.querySelector('#hero .to-do').innerText") == "What to do: unpause it."
    assert page.value("document.getElementById('hero').className") == "hero stopped"
    page = shown("/dedup-clone/#product_attributes")
    assert page.value("document.getElementById('incidents').closest('section').hidden") is True
    assert dom(shown("/viewer/#product_attributes")).count('<fieldset disabled="">') == 2


def test_what_needs_a_person_is_on_cards_and_a_stopped_snapshot_leads_to_its_form(
    shown: Callable[[str], Page],
) -> None:
    page = shown("/dedup-clone/#store_visits")
    stopped, asked, refused = page.value(INCIDENTS)
    assert "Snapshot 2122 was stopped by a check" in stopped
    assert "at most 20.00% as configured" in stopped
    assert "late, since " in stopped  # a line of its card, not one more card
    assert "store_visits: roll back to generation 119?" in asked
    assert "everybody who may edit runs of store_visits_rollback" in asked
    assert all(word in refused for word in ("Since", "Readers see", "snapshot 2120", "Next step"))
    links = page.value("[...document.querySelectorAll('#incidents a[target]')].map((a) => a.href)")
    assert links == [f"https://example.org/runbook.md#{kind}" for kind in ("late", "refused")]
    pills = "[...document.querySelectorAll('#checks tr .pill')]"
    visible = f"{pills}.filter((pill) => pill.checkVisibility()).map((pill) => pill.innerText)"
    assert page.value(visible) == ["fail", "warn"]  # those that passed are folded
    # The form is filled in for the stopped snapshot. What somebody entered for another one does not stay.
    page.value(f"{FORM}.querySelector('input[placeholder]').value = '2026-01-01'")
    page.value("document.querySelector('#incidents button').click()")
    assert page.value(f"{FORM}.querySelector('input[placeholder]').value") == ""
    assert page.value(f"{FORM}.querySelector('select').selectedOptions[0].text").startswith("2122, ")
    assert page.value(f"[...{FORM}.querySelectorAll('input:checked')].map((box) => box.value)") == ["new_share"]
    assert page.value("document.activeElement.required") is True


def test_a_held_snapshot_has_one_card_from_which_a_person_accepts_or_discards_it(browser: Browser) -> None:
    now = datetime.now(UTC)
    held = page_feeds.late(now, is_held=True)
    name = f"held-{page_feeds.delivery(122).name}"
    incident = Incident(IncidentKind.PUBLISH_FAILED, Severity.ALERT, now, "it is held", "look", subject=name)
    found = page_feeds.verdict(held.verdict.feed, FreshnessStatus.AT_RISK, now, incidents=(incident,))
    checked = f"[...{FORM}.querySelectorAll('input:checked')].map((box) => box.parentNode.innerText.split(':')[0])"
    with serve(site(now, held=MemoryStore(held, verdicts=(found,)))) as address:
        page = show(browser, f"{address}/held/")
        assert page.value("document.querySelectorAll('#incidents article.alert').length") == 1
        figures = page.value("[...document.querySelectorAll('#hero dl > div')].map((one) => one.textContent)")
        assert figures[-1] == "Held1stopped by a check"
        for button, submit, boxes in (
            (1, "Discard snapshot 2122", "Discard"),
            (0, "Replay snapshot 2122", "new_share"),
        ):
            page.value(f"document.querySelectorAll('#incidents article.alert button')[{button}].click()")
            assert page.value(f"{FORM}.lastChild.lastChild.textContent") == submit
            assert page.value(checked) == [boxes]
        assert page.problems == []


def test_the_page_follows_the_run_at_work(browser: Browser) -> None:
    """It refreshes by itself: the job gets further, and then the run has ended."""
    now, store = datetime.now(UTC), at_work(datetime.now(UTC))
    line = "document.querySelector('#hero .at-work')"
    with serve(site(now, moving=store)) as address:
        page = show(browser, f"{address}/moving/")
        assert page.value(f"{line}.innerText").startswith("at work dedup_snapshot, 12 of 730 Spark tasks, since ")
        assert page.value(f"{line}.querySelector('a').pathname").endswith("_publish/runs/publish__1")
        name = "product_attributes/attempts/00000121-a/progress.json"
        store.texts[name] = StoredText(store.texts[name].text.replace("12", "15"), 2)
        page.value(LOOK_AGAIN)
        page.wait_until(f"{line}.innerText.includes('15 of 730 Spark tasks')")
        ended = Current("product_attributes", 120, "digest", 121, None)
        store.texts["product_attributes/CURRENT"] = StoredText(to_json(ended), 2)
        page.value(LOOK_AGAIN)
        page.wait_until(f"{line} === null")
        assert page.problems == []


def test_a_form_that_is_being_filled_in_stays_until_its_snapshot_is_chosen_from_a_card(browser: Browser) -> None:
    """Meanwhile another feed gets into a worse state, and then a delivery of this one arrives and is stopped."""
    now, names = datetime.now(UTC), ("product_attributes", "store_visits")
    later = {"checked_at": now + timedelta(hours=1)}
    fresh = tuple(page_feeds.verdict(name, now=now, **later) for name in names)
    store = MemoryStore(*(page_feeds.make_feed(now=now, feed=name) for name in names), verdicts=fresh)
    late = page_feeds.verdict(names[1], FreshnessStatus.LATE, now, **later)
    with serve(site(now, two=store)) as address:
        page = show(browser, f"{address}/two/")
        page.fill("#replay input[required]", "prices were wrong")
        store.store_verdict(late)
        page.value(LOOK_AGAIN)
        page.wait_until("document.querySelector('#feeds .dot.late') !== null")
        assert page.value("document.querySelector('#feeds [aria-current]').hash") == "#product_attributes"
        assert page.value("document.querySelector('#replay input[required]').value") == "prices were wrong"
        store.store_feed(page_feeds.late(now, names[0]))
        page.value(LOOK_AGAIN)
        page.wait_until("document.querySelector('#incidents button') !== null")
        page.value("document.querySelector('#incidents button').click()")
        assert page.value(f"{FORM}.querySelector('select').selectedOptions[0]?.text ?? ''").startswith("2122, ")
        assert page.value(f"[...{FORM}.querySelectorAll('input:checked')].map((box) => box.value)") == ["new_share"]
        assert page.value("document.querySelector('#replay').dataset.busy") == "yes"


def test_nothing_of_another_feed_stays_where_a_feed_cannot_be_shown(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/vanished/#product_attributes")
    as_of = page.value(AS_OF)
    page.value("location.hash = 'vanished'")
    assert "There is no such feed" in page.wait_until(f"{HIDDEN} && {NOTICE}")
    assert page.value(AS_OF) == as_of
    page.value("location.hash = 'product_attributes'")
    page.wait_until(f"!({HIDDEN}) && {AS_OF} !== '{as_of}'")
    # While Airflow cannot be reached, the feed's old values stay with their time.
    as_of = page.value(AS_OF)
    page.send("Network.enable")
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.send("Network.emulateNetworkConditions", **offline)
    page.value(LOOK_AGAIN)
    assert "Airflow cannot be reached" in page.wait_until(NOTICE)
    assert (page.value(HIDDEN), page.value(AS_OF)) == (False, as_of)
    page.value("location.hash = 'vanished'")
    page.wait_until(HIDDEN)


def test_an_open_approval_stays_while_airflow_does_not_answer(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/dedup-clone/#store_visits")
    shown = "document.getElementById('incidents').innerText.includes('store_visits: roll back')"
    assert page.value(shown) is True
    page.value("document.querySelector('#as-of *').isOld = true")
    page.value(
        "window.fetch = ((ask) => (path, ...more) => (path.includes('hitlDetails') "
        "? Promise.resolve(new Response('', { status: 503 })) : ask(path, ...more)))(window.fetch), true"
    )
    page.value(LOOK_AGAIN)
    page.wait_until("!document.querySelector('#as-of *').isOld")
    assert page.value(shown) is True


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


def test_each_time_is_shown_in_the_readers_zone_on_hover(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.send("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    page.go(f"{address}/unchecked/")
    page.wait_until(SHOWN)
    times = "[...document.querySelectorAll('{} time')].map((one) => [one.dateTime, one.title])"
    for part in ("#as-of", "#hero .headline", "#incidents", "#today .key", "#partitions", "#deliveries"):
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


def test_a_replay_is_not_labelled_like_a_snapshot_and_its_reason_is_in_sight(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/replayed/", width=1280)
    readout = page.value("document.querySelector('#rows .readout').textContent")
    assert readout.startswith("A replay, snapshot 2040 ")
    assert readout.endswith(" 1,234 dropped.")
    cells = "[...document.querySelectorAll('#publishes {}')].map((one) => one.textContent)"
    row = dict(zip(page.value(cells.format("th")), page.value(cells.format("tbody tr:first-child td")), strict=True))
    assert (row["Lag"], row["Dropped"], row["Reason"]) == ("replay", "1,234", "prices were wrong")
    assert row["Overlap"] in ("25 %", "")
    edges = page.value(
        "((table) => [[...table.querySelectorAll('th')].find((one) => one.textContent === 'Reason'), table]"
        ".map((one) => one.getBoundingClientRect().right))(document.querySelector('#publishes .scroll'))"
    )
    assert edges[0] <= edges[1]


def test_the_first_publish_does_not_hide_rows_and_lag_of_all_others(shown: Callable[[str], Page]) -> None:
    page = shown("/dedup-clone/#product_attributes")
    assert "cut off" not in page.value("['rows', 'lag'].map((id) => document.getElementById(id).innerText).join()")
    page = shown("/beginning/")
    assert page.value("document.getElementById('rows').chart.scales.y.max") < 2e9
    chart = "document.getElementById('lag').chart"
    highest, first = page.value(f"[{chart}.scales.y.max, {chart}.data[1][0]]")
    assert highest == first < 36 * 60 / 10
    assert page.value(f"{chart}.axes[0].values({chart}, [0, 11])") == ["2001", "2012"]


def test_the_page_is_used_by_keyboard_alone(browser: Browser, address: str) -> None:
    page = show(browser, f"{address}/dedup-clone/#product_attributes")
    page.value("document.querySelector('svg.calendar').focus()")
    readout = "document.querySelector('#partitions .readout').textContent"
    newest = page.value(readout)
    page.press("ArrowLeft")
    assert newest.startswith(str(datetime.now(UTC).date()))
    assert page.value(readout) != newest
    page.tab_to("e.hash === '#store_visits'")
    page.press("Enter")
    page.wait_until("document.querySelector('#incidents button') !== null")
    assert page.value("document.activeElement.hash") == "#store_visits"
    page.tab_to("e.innerText === 'Accept with a reason …'")
    page.press("Enter")
    page.wait_until("document.activeElement.required")
    page.send("Input.insertText", text="it is right")
    reason = f"{FORM}.querySelector('input[required]').value"
    assert page.value(f"[{FORM}.checkValidity(), {reason}]") == [True, "it is right"]
    page.tab_to("e.innerText === 'Required Actions of this run'", shift=True)
    page.press("Enter")
    page.wait_until("location.pathname.endsWith('/tasks/approve_rollback/required_actions')")
