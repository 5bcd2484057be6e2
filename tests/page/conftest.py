"""The page in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache

import pytest

from testkit.browser import CHROMIUM, Browser, Page, open_browser
from tests.page.serving import serve, site
from tests.shared.required_tools import require

SHOWN = "(({ hidden, textContent }) => hidden || !textContent.startsWith('Reading'))(document.getElementById('notice'))"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def show(browser: Browser, address: str, **settings: object) -> Page:
    page = browser.new_page(**settings)  # type: ignore[arg-type]
    page.go(address)
    page.wait_until(SHOWN)
    page.value(DRAWN)
    return page


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with serve(site(datetime.now(UTC))) as address:
        yield address


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        require("chromium", "apt-get install chromium fonts-liberation")
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="session")
def shown(browser: Browser, address: str) -> Callable[[str], Page]:
    """The page at a path, wide and light: loaded once for all tests that only look at it."""
    return cache(lambda path: show(browser, f"{address}{path}"))
