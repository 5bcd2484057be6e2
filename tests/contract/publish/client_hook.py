"""Airflow's BigQuery hook with a test's client."""

from __future__ import annotations

from typing import Any

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from google.cloud.bigquery import Client

from testkit.feed_on_stand_in import FeedOnStandIn


class ClientHook(BigQueryHook):
    """The hook without an Airflow connection. `inserted`: the ids of the inserted jobs."""

    location = "US"
    labels: dict[str, str] | None = None

    def __init__(self, world: FeedOnStandIn) -> None:
        self._client = world.bigquery
        self.inserted: list[str] = []

    def get_client(self, **_: Any) -> Client:
        return self._client

    def insert_job(self, **arguments: Any) -> Any:
        self.inserted.append(arguments["job_id"])
        return super().insert_job(**arguments)
