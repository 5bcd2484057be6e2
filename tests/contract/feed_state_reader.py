"""Reads the state of a feed as the watchdog does, without what only Airflow knows."""

from __future__ import annotations

from datetime import timedelta

from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.read_feed_state import read_feed_state
from dedup_clone.publish.services import Services


def read_state(services: Services) -> FeedState:
    return read_feed_state(
        services,
        watch_dag=None,
        publish_dag=None,
        find_failed_run=lambda waiting: None,
        check_interval=timedelta(minutes=5),
    )
