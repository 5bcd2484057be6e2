"""Adds the page Snapshots to Airflow's navigation, and as a tab to every DAG.

Every Airflow component loads this file, so the web application is imported only by its first request.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from dedup_clone.page.lazy_application import LazyApplication

PREFIX = "/dedup-clone"


class SnapshotsPlugin(AirflowPlugin):
    """The views' addresses are relative, because Airflow itself may be served below a path."""

    name = "snapshots"
    fastapi_apps: ClassVar[list[Any]] = [{"app": LazyApplication(), "url_prefix": PREFIX, "name": "Snapshots"}]
    external_views: ClassVar[list[Any]] = [
        {"name": "Snapshots", "href": f"{PREFIX[1:]}/", "destination": "nav", "url_route": "snapshots"},
        {
            "name": "Snapshots",
            "href": f"{PREFIX[1:]}/?dag={{DAG_ID}}",
            "destination": "dag",
            "url_route": "feed-snapshots",
        },
    ]
