"""A publish that a queued BigQuery job delays beyond its freshness SLA, and the alerts that follow."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient, row
from testkit.waiting import wait_for
from tests.stack.alert_file import alert_titles
from tests.stack.extra_feeds import ALERTS, SLOWED

WATCHDOG = "freshness_watchdog"


class Watchdog:
    """Runs the freshness watchdog, and reads the alerts."""

    def __init__(self, stack: StackClient) -> None:
        self._stack = stack

    def alerts(self, feed: str) -> list[str]:
        """The titles of the feed's alerts so far, in order."""
        return alert_titles(self._stack.local / ALERTS, feed)

    def run_watchdog(self) -> None:
        """Run the watchdog once, besides its scheduled runs."""
        run_id = self._stack.started_run_id(self._stack.trigger(WATCHDOG))
        wait_for(lambda: self._ended(run_id), f"the watchdog's run [{run_id}] has ended")

    def _ended(self, run_id: str) -> bool:
        return self._stack.airflow.run_state(WATCHDOG, run_id) in ("success", "failed")

    def wait_for(self, feed: str, title: str) -> None:
        """Wait for an alert from a deadline or a scheduled run of the watchdog."""
        wait_for(lambda: title in self.alerts(feed), f"[{title}] of [{feed}] was alerted")

    def run_watchdog_until(self, feed: str, title: str) -> None:
        def is_alerted() -> bool:
            if title not in self.alerts(feed):
                self.run_watchdog()
            return title in self.alerts(feed)

        wait_for(is_alerted, f"[{title}] of [{feed}] was alerted")


class SlowPublish:
    """A publish whose load job stays in BigQuery's queue until `end`."""

    def __init__(self, proxied_stack: ProxiedStack, stack: StackClient, folder: Path) -> None:
        self._gated_stack = proxied_stack
        self._stack = stack
        self._waiting = ExitStack()
        self._waiting.callback(proxied_stack.clear_faults)
        pattern = f"dedup_clone-{SLOWED}-.*-load-"
        proxied_stack.add_fault({"match": {"job_id": pattern}, "effect": "queue", "times": 100})
        self.run_id = stack.land(SLOWED, 1, [row(datetime.now(UTC).date(), 1, 10, 1)], folder)

    def wait_for_load(self) -> None:
        """Wait until the publish has the lease and has inserted its load job."""
        wait_for(lambda: "-load-" in str(self._gated_stack.current(SLOWED).intent), "the slowed load is inserted")

    def end(self) -> str:
        """Let the job run, and return the final state of the publish run."""
        self._waiting.close()
        return self._stack.wait_for_run(SLOWED, self.run_id)

    def give_up(self) -> None:
        """Let the job run."""
        self._waiting.close()

    def deadlines(self) -> list[dict[str, Any]]:
        """The deadlines that Airflow has recorded for the run."""
        answer = self._stack.ask("GET", f"ui/dags/{SLOWED}_publish/dagRuns/{self.run_id}/deadlines")
        deadlines: list[dict[str, Any]] = answer.json()["deadlines"]
        return deadlines
