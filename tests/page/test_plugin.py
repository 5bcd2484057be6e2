"""The plugin as Airflow loads it: without expensive imports, and with the page in the navigation and on each DAG."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"

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
    ours = [m for m in done.stdout.split() if not m.startswith(("dedup_clone", "snapshots_plugin"))]
    assert ours == []


def test_airflow_finds_the_page_and_none_of_the_library_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow._shared.plugins_manager.plugins_manager import _load_plugins_from_plugin_directory

    plugins, errors = _load_plugins_from_plugin_directory(plugins_folder=str(PLUGINS))
    assert errors == {}
    found = {plugin.name: plugin for plugin in plugins}
    assert "snapshots" in found
    views = found["snapshots"].external_views
    assert [(v["destination"], v["href"]) for v in views] == [
        ("nav", "dedup-clone/"),
        ("dag", "dedup-clone/?dag={DAG_ID}"),
    ]
    assert len({v["url_route"] for v in views}) == 2
    icon = (PLUGINS / "dedup_clone" / "page" / "static" / "icon.svg").read_text().strip()
    assert {unquote(v["icon"]) for v in views} == {f"data:image/svg+xml,{icon}"}
