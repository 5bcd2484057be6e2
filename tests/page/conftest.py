"""The page at several addresses, with one state of feeds each, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count

import pytest

from dedup_clone.state.store import StoredText
from testkit.browser import CHROMIUM, Browser, Page, open_browser
from tests.page.serving import application, serve, site
from tests.page.shown_page import show
from tests.shared import page_indexes
from tests.shared.page_store import MemoryStore

EVIL = "<img src=x onerror=\"document.title='stolen'\"><b>bold</b>"


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
    whole = page_indexes.fresh(now)
    old = whole.records[39]
    replay = replace(
        whole.records[-1], deliveries=old.deliveries, snapshot_id=old.snapshot_id, lag_s=None, dropped_rows=1234,
        reason="prices were wrong",
    )  # fmt: skip
    shown.mount("/replayed", application(MemoryStore(replace(whole, records=(*whole.records[:-1], replay)))))
    shown.mount("/beginning", application(MemoryStore(replace(few, records=(first, *few.records[1:])))))
    with serve(shown) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def shown(browser: Browser, address: str) -> Callable[[str], Page]:
    """The page at a path, wide and light: loaded once for all tests that look at it."""
    return cache(lambda path: show(browser, f"{address}{path}"))
