"""Adds feeds for the end-to-end tests: with a short freshness SLA, with an overdue snapshot, and with a strict check.

Alerts of all feeds are written to a file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from testkit.proxied_stack import EXAMPLE
from tests.stack.alert_file import CLASS_PATH

SLOWED = "slowed"
HELD_BACK = "held_back"
BOUNDED = "bounded"
MAX_CHANGED_SHARE = 0.5
PROMISE_MINUTES = 2
ALERTS = "alerts.jsonl"
OVERDUE_FOR = timedelta(hours=3)


def add_feeds(dags: Path) -> None:
    """Add the feeds to a copy of the DAGs folder. The file with the alerts is beside that folder."""
    expected = f"{datetime.now(UTC) - OVERDUE_FOR:%H:%M}"
    _write(dags, SLOWED, freshness={"sla_minutes": PROMISE_MINUTES})
    _write(dags, HELD_BACK, freshness={"expected_arrivals": {"times": [expected], "grace_minutes": 30}})
    _write(dags, BOUNDED, checks={"max_changed_share": MAX_CHANGED_SHARE})
    profile = dags / "profiles" / "local.yaml"
    settings = yaml.safe_load(profile.read_text())
    notifier = {"class_path": CLASS_PATH, "arguments": {"path": str(dags.parent / ALERTS)}}
    profile.write_text(yaml.safe_dump({**settings, "alerts": {"notifiers": [notifier]}}))


def _write(dags: Path, feed: str, **sections: dict[str, Any]) -> None:
    """Write the example's feed with another name, and with other settings in some sections."""
    settings = yaml.safe_load((dags / "feeds" / f"{EXAMPLE}.yaml").read_text())
    settings |= {"feed": feed, "landing": {"prefix": feed}}
    for name, section in sections.items():
        settings[name] = {**settings[name], **section}
    (dags / "feeds" / f"{feed}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
