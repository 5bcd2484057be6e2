"""The page Snapshots as Airflow serves it: who sees it, who may start something, and how it is in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devstack.stack.names_and_logins import LOGINS
from testkit.browser import CHROMIUM, Browser, Page, open_browser
from testkit.stack import Stack
from testkit.stack_snapshots import row
from tests.e2e.feeds import EXAMPLE as FEED
from tests.e2e.feeds import TODAY

pytestmark = pytest.mark.timeout(600)

FRAME = "document.querySelector('iframe').contentDocument"
HEADLINE = "#hero .headline"
# A warning about the frame that Airflow puts every plugin's page into; it names the page's address.
AIRFLOWS_FRAME = "An iframe which has both allow-scripts and allow-same-origin"


@pytest.fixture(scope="module")
def published(stack: Stack) -> Stack:
    """With something to see, and to replay."""
    stack.assert_published(FEED, stack.land(FEED, 100, [row(TODAY, 1, 10, 100)]))
    stack.wait_for_page(FEED, lambda view: (view["live"] or {}).get("snapshot_id") == "100", "the snapshot")
    return stack


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        (pytest.fail if "CI" in os.environ else pytest.skip)("needs Chromium: apt-get install chromium")
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def logged_in(browser: Browser, stack: Stack, user: str) -> Page:
    """A page of Airflow after its login form."""
    page = browser.new_page()
    page.go(f"{stack.connection.airflow_url}/auth/login")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", LOGINS[user])
    page.press("Enter")
    page.wait_until("!location.pathname.includes('login')")
    return page


def ours(page: Page) -> list[tuple[str, str]]:
    """Problems on the console that our page made, not Airflow around it."""
    return [(url, text) for url, text in page.problems if "/dedup-clone/" in url and AIRFLOWS_FRAME not in text]


def test_strangers_get_401_on_every_path(published: Stack) -> None:
    for path in ("", "static/1/page.js", "api/feeds", f"api/feeds/{FEED}"):
        assert published.ask("GET", f"dedup-clone/{path}", user=None).status == 401


def test_a_viewer_sees_everything_and_can_start_nothing(published: Stack) -> None:
    view = published.on_the_page(FEED, user="vera")
    assert view["live"] is not None
    assert (view["may_replay"], view["may_roll_back"]) == (False, False)
    assert published.trigger(f"{FEED}_publish", user="vera", snapshot_id="1").status == 403
    assert published.trigger(f"{FEED}_rollback", user="vera", generation=1).status == 403


def test_a_viewer_finds_the_forms_disabled_in_airflow(browser: Browser, published: Stack) -> None:
    page = logged_in(browser, published, "vera")
    page.go(f"{published.connection.airflow_url}/plugin/snapshots")
    page.wait_until(f"{FRAME}.querySelector('{HEADLINE}')?.innerText")
    page.value(f"{FRAME}.location.hash = '{FEED}'")  # a feed with an incident is shown first
    page.wait_until(f"{FRAME}.querySelector('#replay fieldset[disabled]') !== null")
    assert "Your role may look but not start" in page.value(f"{FRAME}.getElementById('replay').innerText")
    assert ours(page) == []


def test_an_admin_replays_from_the_tab_of_a_dag(browser: Browser, published: Stack) -> None:
    page = logged_in(browser, published, "admin")
    page.go(f"{published.connection.airflow_url}/dags/{FEED}_publish/plugin/feed-snapshots")
    page.wait_until(f"{FRAME}.querySelector('#replay button') !== null")
    page.value(
        f"(() => {{ const form = {FRAME}.querySelector('#replay form');"
        " form.querySelector('input[required]').value = 'asked for on the page'; form.requestSubmit(); })()"
    )
    run_id = page.wait_until(f"{FRAME}.querySelector('#replay .answer.good a')?.innerText")
    published.assert_published(FEED, run_id)
    reason = "asked for on the page (asked by admin)"
    published.wait_for_page(FEED, lambda view: view["publishes"][-1]["reason"] == reason, "the replay")
    assert ours(page) == []
