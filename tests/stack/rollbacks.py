"""Rollbacks of one feed through Airflow's REST API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dedup_clone.state.layout import FeedLayout
from testkit.approvals import Approvals
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient, as_tuples, row
from tests.stack.extra_feeds import HELD_BACK as FEED

TODAY = datetime.now(UTC).date()
ROLLBACK = f"{FEED}_rollback"


class Rollbacks:
    """A feed with at least two generations: `good`, and the one after it, which is to be rolled back."""

    def __init__(self, proxied_stack: ProxiedStack, stack: StackClient, folder: Path) -> None:
        self.proxied_stack = proxied_stack
        self.stack = stack
        self.approvals = Approvals(stack, FEED, "rollback", "approve_rollback")
        known = [d.snapshot_id for d in proxied_stack.arrivals(FEED).deliveries()]
        first = max(known, default=0) + 1
        self.good_rows = self._publish(first, folder)
        self.good = self.live()
        self.regretted_rows = self._publish(first + 1, folder)
        self.regretted = self.live()

    def _publish(self, snapshot_id: int, folder: Path) -> list[tuple[Any, ...]]:
        rows = [row(TODAY, product, snapshot_id * 10 + product, snapshot_id) for product in (1, 2, snapshot_id + 10)]
        run_id = self.stack.land(FEED, snapshot_id, rows, folder / str(snapshot_id))
        assert self.stack.wait_for_run(FEED, run_id) == "success", self.stack.task_states(FEED, run_id)
        assert set(as_tuples(rows)) <= set(self.stack.rows(FEED))
        return self.stack.rows(FEED)

    def live(self) -> int:
        generation = self.proxied_stack.current(FEED).generation
        assert generation is not None
        return generation

    def ask_for(self, generation: int) -> str:
        return self.stack.started_run_id(
            self.stack.trigger(ROLLBACK, generation=generation, reason="the test regrets it")
        )

    def log_of(self, run_id: str, task_id: str) -> str:
        return self.stack.task_log(FEED, run_id, task_id, dag="rollback")


def prune(proxied_stack: ProxiedStack, generation: int) -> None:
    """Delete a generation's files and its swap time, as if it had been pruned and were outside of time travel."""
    layout, manifest = FeedLayout(FEED), proxied_stack.manifests(FEED).read(generation)
    proxied_stack.store.delete_prefix(layout.data_folder(manifest.attempt))
    swap_spec = layout.swap_spec(manifest.attempt)
    (stored,) = proxied_stack.store.stat([swap_spec])
    proxied_stack.store.delete(swap_spec, expected_object_generation=stored.object_generation)
