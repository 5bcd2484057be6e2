"""The page is used by keyboard alone, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from testkit.browser import Browser, Page
from tests.page.shown_page import OVERFLOW, show


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
