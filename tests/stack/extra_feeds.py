"""Adds feeds for the end-to-end tests: with a short freshness SLA, an overdue snapshot, a strict check, and five more.

One of the shipped feeds gets a table of changes. Alerts of all feeds are written to a file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from soak.example_feeds import write_example_feed
from tests.stack.airflow_answers import add_asking_dag
from tests.stack.alert_file import CLASS_PATH

SLOWED = "slowed"
HELD_BACK = "held_back"
BOUNDED = "bounded"
ENDED_BADLY = FAILED, MARKED_FAILED, MARKED_SUCCESS, DELETED, KILLED = (
    "ended_failed",
    "ended_marked_failed",
    "ended_marked_success",
    "ended_deleted",
    "ended_killed",
)
WITH_CHANGES = "product_attributes"
MAX_CHANGED_SHARE = 0.5
SLA_MINUTES = 2
ALERTS = "alerts.jsonl"
OVERDUE_FOR = timedelta(hours=3)


def add_feeds(dags: Path) -> None:
    """Add the feeds to a copy of the DAGs folder. The file with the alerts is beside that folder."""
    expected = f"{datetime.now(UTC) - OVERDUE_FOR:%H:%M}"
    write_example_feed(dags, SLOWED, freshness={"sla_minutes": SLA_MINUTES})
    write_example_feed(dags, HELD_BACK, freshness={"expected_arrivals": {"times": [expected], "grace_minutes": 30}})
    write_example_feed(dags, BOUNDED, checks={"max_changed_share": MAX_CHANGED_SHARE})
    for feed in ENDED_BADLY:
        write_example_feed(dags, feed, engine="bigquery")
    add_asking_dag(dags)
    with_changes = dags / "feeds" / f"{WITH_CHANGES}.yaml"
    with_changes.write_text(f"{with_changes.read_text()}changes: true\n")
    profile = dags / "profiles" / "local.yaml"
    settings = yaml.safe_load(profile.read_text())
    notifier = {"class_path": CLASS_PATH, "arguments": {"path": str(dags.parent / ALERTS)}}
    profile.write_text(yaml.safe_dump({**settings, "alerts": {"notifiers": [notifier]}}))
