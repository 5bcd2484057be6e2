"""Runs the watch DAG's sensor on a test's feed, and simulates the publish runs that Airflow knows."""

from __future__ import annotations

import pytest

from testkit import dag_tasks
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.shared.task_api import TaskApi


class Watch(dag_tasks.Watch):
    """The sensor of one feed, with an Airflow of its own."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(world, TaskApi(monkeypatch), monkeypatch)

    def fail(self, run_id: str) -> None:
        self.end(run_id)
