"""Opens the page in the browser, and names what several tests of it look at."""

from __future__ import annotations

from pathlib import Path

from testkit.browser import Browser, Page

REPOSITORY = Path(__file__).parents[2]
SHOWN = "(({ hidden, textContent }) => hidden || !textContent.startsWith('Reading'))(document.getElementById('notice'))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


def show(browser: Browser, address: str, **settings: object) -> Page:
    page = browser.new_page(**settings)
    page.go(address)
    page.wait_until(SHOWN)
    page.value(DRAWN)
    return page


def dom(page: Page) -> str:
    """The document after its scripts have run."""
    text: str = page.value("document.documentElement.outerHTML")
    return text
