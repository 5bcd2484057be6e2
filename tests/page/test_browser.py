"""The page in a real browser, where there is one: it renders, and what comes from data stays text."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from tests.page.serving import MemoryStore, application
from tests.unit.page import indexes

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
EVIL = "<img src=x onerror=\"document.title='stolen'\"><b>bold</b>"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    now = datetime.now(UTC)
    late = indexes.late(now)
    refused = next(a for a in late.arrivals if a.reason)
    evil = replace(
        late,
        description=EVIL,
        arrivals=tuple(replace(a, reason=EVIL) if a is refused else a for a in late.arrivals),
    )
    shown = FastAPI()
    shown.mount("/full", application(MemoryStore(indexes.fresh(now), evil, indexes.empty(now))))
    shown.mount("/viewer", application(MemoryStore(indexes.fresh(now)), may_trigger=False))
    shown.mount("/nothing", application(MemoryStore()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(shown, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


def dom(address: str, profile: Path) -> str:
    """The document after its scripts have run."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
        "--virtual-time-budget=8000", "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_the_state_stands_on_top(address: str, tmp_path: Path) -> None:
    page = dom(f"{address}/full/#product_attributes", tmp_path)
    assert "Readers see snapshot 2120, the newest one." in page
    assert page.count("<rect") > 700
    assert "<canvas" in page


def test_what_comes_from_data_is_text(address: str, tmp_path: Path) -> None:
    page = dom(f"{address}/full/#store_visits", tmp_path)
    assert page.count("&lt;img src=x") == 2
    assert "<img" not in page
    assert "<b>" not in page
    assert "<title>Snapshots</title>" in page


def test_on_the_tab_of_a_dag_its_feed_is_shown(address: str, tmp_path: Path) -> None:
    assert "Nothing is published yet." in dom(f"{address}/full/?dag=worked_example_publish", tmp_path)
    assert "The DAG somebody_elses belongs to no feed." in dom(f"{address}/full/?dag=somebody_elses", tmp_path)


def test_who_may_start_nothing_is_told_so_and_finds_the_forms_disabled(address: str, tmp_path: Path) -> None:
    page = dom(f"{address}/viewer/", tmp_path)
    assert "Your role may look but not start product_attributes_publish." in page
    assert page.count('<fieldset disabled="">') == 2


def test_before_the_first_arrival_the_page_says_what_will_happen(address: str, tmp_path: Path) -> None:
    assert "A feed appears here as soon as its first snapshot has arrived." in dom(f"{address}/nothing/", tmp_path)
