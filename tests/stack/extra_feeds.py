"""Two feeds that only the end-to-end tests have: one with a short promise, one whose snapshot is overdue at the start.

Everybody who is told of their incidents is a file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from soak.stack import EXAMPLE
from tests.stack.alert_file import CLASS_PATH

SLOWED = "slowed"
HELD_BACK = "held_back"
PROMISE_MINUTES = 2
ALERTS = "alerts.jsonl"
OVERDUE_FOR = timedelta(hours=3)


def add_feeds(dags: Path) -> None:
    """Into a copy of the DAGs folder; the file of alerts lies beside that folder."""
    expected = f"{datetime.now(UTC) - OVERDUE_FOR:%H:%M}"
    _write(dags, SLOWED, {"promise_minutes": PROMISE_MINUTES})
    _write(dags, HELD_BACK, {"expected_arrivals": {"times": [expected], "grace_minutes": 30}})
    profile = dags / "profiles" / "local.yaml"
    settings = yaml.safe_load(profile.read_text())
    notifier = {"class_path": CLASS_PATH, "arguments": {"path": str(dags.parent / ALERTS)}}
    profile.write_text(yaml.safe_dump({**settings, "alerts": {"notifiers": [notifier]}}))


def _write(dags: Path, feed: str, freshness: dict[str, Any]) -> None:
    settings = yaml.safe_load((dags / "feeds" / f"{EXAMPLE}.yaml").read_text())
    settings |= {"feed": feed, "landing": {"prefix": feed}, "freshness": freshness}
    (dags / "feeds" / f"{feed}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
