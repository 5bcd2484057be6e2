"""Adds the page Snapshots to Airflow's navigation, and as a tab to every DAG.

Every Airflow component loads this file, so the web application is imported only by its first request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from dedup_clone.page.airflow_server import application

PREFIX = "/dedup-clone"
# A data URL, because Airflow shows the icon before the page is loaded, and may itself be served below a path.
ICON = "data:image/svg+xml," + quote(
    (Path(__file__).parent / "dedup_clone" / "page" / "static" / "icon.svg").read_text(encoding="utf-8").strip()
)


class SnapshotsPlugin(AirflowPlugin):
    """The views' addresses are relative, because Airflow itself may be served below a path."""

    name = "snapshots"
    fastapi_apps: ClassVar[list[Any]] = [{"app": application, "url_prefix": PREFIX, "name": "Snapshots"}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Snapshots",
            "href": f"{PREFIX[1:]}/",
            "destination": "nav",
            "url_route": "snapshots",
            "icon": ICON,
        },
        {
            "name": "Snapshots",
            "href": f"{PREFIX[1:]}/?dag={{DAG_ID}}",
            "destination": "dag",
            "url_route": "feed-snapshots",
            "icon": ICON,
        },
    ]
