"""Runs the watchdog's check of a test's feed, and simulates Airflow's answers."""

from __future__ import annotations

import pytest

from testkit import dag_tasks
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.shared.task_api import TaskApi


class Watchdog(dag_tasks.Watchdog):
    """The check of one feed, with an Airflow of its own."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(world, TaskApi(monkeypatch), monkeypatch, caplog)
