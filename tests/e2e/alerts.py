"""Runs the freshness watchdog on the stack, and reads the alerts."""

from __future__ import annotations

import json
from pathlib import Path

from testkit.stack import Stack
from testkit.waiting import wait_for

WATCHDOG = "freshness_watchdog"
LATE = "late"  # a warning while the SLA is at risk, an alert once it is missed


class Watchdog:
    """The watchdog, besides its scheduled runs. `path`: the file of the alerts (in_airflow.py)."""

    def __init__(self, stack: Stack, path: Path) -> None:
        self._stack = stack
        self._path = path

    def alerts(self, feed: str) -> list[str]:
        """The titles of the feed's alerts so far, in order, without the feed's name."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        alerts = [json.loads(line) for line in lines]
        return [a["title"].removeprefix(f"[{feed}] ") for a in alerts if a["feed"] == feed]

    def check(self) -> None:
        self._stack.run(WATCHDOG)

    def check_until(self, feed: str, title: str) -> None:
        def is_alerted() -> bool:
            if title not in self.alerts(feed):
                self.check()
            return title in self.alerts(feed)

        wait_for(is_alerted, f"[{title}] of [{feed}] was alerted")
