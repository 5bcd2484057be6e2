"""The page's web application: permissions, answers and HTTP headers; and the plugin as Airflow loads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.page.airflow_server import open_state_bucket
from dedup_clone.page.application import STATIC, Permissions, create_application
from dedup_clone.page.feed_reader import FeedReader
from tests.page.serving import application, let_in
from tests.shared.page_feeds import NOW, empty, fresh, late, make_feed, verdicts
from tests.shared.page_store import MemoryStore

PLUGINS = Path(__file__).parents[2] / "plugins"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(fresh(), late(), empty(), verdicts=verdicts())


@pytest.fixture
def client(store: MemoryStore) -> TestClient:
    return TestClient(application(store, now=lambda: NOW))


def test_a_person_sees_only_the_feeds_whose_dags_that_person_may_read(store: MemoryStore) -> None:
    permissions = Permissions(lambda dag_id: dag_id == "store_visits_publish", lambda dag_id: False)
    client = TestClient(create_application(FeedReader(lambda: store), let_in, lambda: permissions, lambda: NOW))
    assert [f["feed"] for f in client.get("/api/feeds").json()["feeds"]] == ["store_visits"]
    assert client.get("/api/feeds/product_attributes").status_code == 404
    assert client.get("/api/feeds/store_visits").status_code == 200


def test_a_thousand_publishes_and_730_partitions_make_a_small_answer() -> None:
    store = MemoryStore(make_feed(1000))
    client = TestClient(application(store, now=lambda: NOW))
    answer = client.get("/api/feeds/product_attributes")
    assert len(answer.json()["publishes"]) == 100
    assert len(answer.json()["dates"]) == 730
    assert len(answer.content) < 200_000


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(client: TestClient) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "//" not in page.text.replace("<!--", "")
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_browser_requests_all_modules_and_the_list_of_feeds_at_once(client: TestClient) -> None:
    """Without these links it requests modules as it finds their imports, and the list after all modules."""
    preloaded = re.findall(r'<link rel="modulepreload" href="static/(\w+\.js)" />', client.get("/").text)
    assert preloaded == sorted(path.name for path in STATIC.glob("*.js") if path.name != "page.js")
    assert '<link rel="preload" href="api/feeds" as="fetch" crossorigin="anonymous" />' in client.get("/").text


def test_data_is_never_stored_and_a_static_file_only_until_it_changes(
    client: TestClient, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/api/feeds").headers["cache-control"] == "no-store"
    assert client.get("/").headers["cache-control"] == "no-store"
    script = client.get("/static/dom.js")
    kept = {"If-None-Match": script.headers["etag"]}
    assert script.headers["cache-control"] == "no-cache"
    assert client.get("/static/dom.js", headers=kept).status_code == 304
    shutil.copytree(STATIC, tmp_path / "static")
    with (tmp_path / "static" / "dom.js").open("a") as file:
        file.write("// deployed later\n")
    monkeypatch.setattr("dedup_clone.page.application.STATIC", tmp_path / "static")
    deployed = TestClient(application(store, now=lambda: NOW)).get("/static/dom.js", headers=kept)
    assert (deployed.status_code, deployed.text[-18:]) == (200, "// deployed later\n")


@pytest.mark.parametrize("name", ["../feed_view.py", "%2e%2e/feed_view.py", "..%2f..%2fcontract%2ferrors.py", "x.js"])
def test_only_the_pages_own_files_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_the_error_for_a_missing_bucket_names_the_variable() -> None:
    def open_store() -> Any:
        return open_state_bucket({})

    client = TestClient(
        create_application(FeedReader(open_store), let_in, lambda: Permissions(bool, bool), lambda: NOW)
    )
    answer = client.get("/api/feeds")
    assert answer.status_code == 503
    assert "DEDUP_CLONE_STATE_BUCKET" in answer.json()["detail"]
    with pytest.raises(ConfigurationError, match="DEDUP_CLONE_STATE_BUCKET"):
        open_store()


def test_the_chart_library_is_the_one_that_was_recorded() -> None:
    recorded = (STATIC.parents[3] / "tests" / "page" / "vendor" / "SHA256SUMS").read_text()
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        assert sha256((STATIC / "vendor" / "uplot" / name).read_bytes()).hexdigest() in recorded


LOAD = """
import sys
import airflow.plugins_manager
before = set(sys.modules)
import snapshots_plugin
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def test_loading_the_plugin_imports_no_web_server_and_no_client() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PLUGINS)}
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [m for m in done.stdout.split() if not m.startswith(("dedup_clone", "snapshots_plugin"))] == []


def test_airflow_shows_the_page_in_its_navigation_and_on_each_dag() -> None:
    from airflow._shared.plugins_manager.plugins_manager import _load_plugins_from_plugin_directory

    plugins, errors = _load_plugins_from_plugin_directory(plugins_folder=str(PLUGINS))
    assert errors == {}
    views = {plugin.name: plugin for plugin in plugins}["snapshots"].external_views
    places = [(view["destination"], view["href"]) for view in views]
    assert places == [("nav", "dedup-clone/"), ("dag", "dedup-clone/?dag={DAG_ID}")]
    assert len({view["url_route"] for view in views}) == 2
