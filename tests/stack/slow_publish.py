"""A publish that BigQuery keeps waiting beyond the promise, and whoever is told of it meanwhile."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from soak.stack import SoakStack
from tests.stack.alert_file import told
from tests.stack.extra_feeds import ALERTS, SLOWED
from tests.stack.local_stack import LocalStack, row, wait_for

WATCHDOG = "freshness_watchdog"


class Watchers:
    """Those who look after the promise, and those whom they tell."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack

    def told(self, feed: str) -> list[str]:
        """What people were told of the feed so far, in order."""
        return told(self._stack.local / ALERTS, feed)

    def look(self) -> None:
        """One look of the watchdog at every feed, beside those that its schedule makes."""
        run_id = self._stack.started(self._stack.trigger(WATCHDOG))
        wait_for(lambda: self._ended(run_id), f"the watchdog's run [{run_id}] has ended")

    def _ended(self, run_id: str) -> bool:
        return self._stack.airflow.run_state(WATCHDOG, run_id) in ("success", "failed")

    def wait_for(self, feed: str, title: str) -> None:
        """Somebody is told that, without a look on purpose: by a deadline or by the schedule."""
        wait_for(lambda: title in self.told(feed), f"[{title}] of [{feed}] is told")

    def look_until(self, feed: str, title: str) -> None:
        def is_told() -> bool:
            if title not in self.told(feed):
                self.look()
            return title in self.told(feed)

        wait_for(is_told, f"[{title}] of [{feed}] is told")


class SlowPublish:
    """From its landing on, BigQuery queues the load, until `end` lets it go on."""

    def __init__(self, gated_stack: SoakStack, stack: LocalStack, folder: Path) -> None:
        self._gated_stack = gated_stack
        self._stack = stack
        self._waiting = ExitStack()
        self._waiting.callback(gated_stack.clear_faults)
        pattern = f"dedup_clone-{SLOWED}-.*-load-"
        gated_stack.add_fault({"match": {"job_id": pattern}, "effect": "queue", "times": 100})
        self.run_id = stack.land(SLOWED, 1, [row(datetime.now(UTC).date(), 1, 10, 1)], folder)

    def wait_for_load(self) -> None:
        """The publish holds the lease and stands at its load."""
        wait_for(lambda: "-load-" in str(self._gated_stack.current(SLOWED).intent), "the slowed load is inserted")

    def end(self) -> str:
        """The final state of its run."""
        self._waiting.close()
        return self._stack.wait_for_run(SLOWED, self.run_id)

    def give_up(self) -> None:
        """Nothing of it waits any more."""
        self._waiting.close()

    def deadlines(self) -> list[dict[str, Any]]:
        """What Airflow has on record of its run's promise."""
        answer = self._stack.ask("GET", f"ui/dags/{SLOWED}_publish/dagRuns/{self.run_id}/deadlines")
        deadlines: list[dict[str, Any]] = answer.json()["deadlines"]
        return deadlines
