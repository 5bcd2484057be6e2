"""Rollbacks of one feed through Airflow's REST API: asked for, approved or rejected, followed to their end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dedup_clone.state.layout import FeedLayout
from soak.stack import SoakStack
from tests.stack.extra_feeds import HELD_BACK as FEED
from tests.stack.local_stack import LocalStack, as_tuples, row, wait_for

TODAY = datetime.now(UTC).date()
ROLLBACK = f"{FEED}_rollback"


class Rollbacks:
    """A feed with at least two generations: `good` and the one after it, which is regretted."""

    def __init__(self, gated_stack: SoakStack, stack: LocalStack, folder: Path) -> None:
        self.gated_stack = gated_stack
        self.stack = stack
        known = [d.snapshot_id for d in gated_stack.arrivals(FEED).deliveries()]
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
        generation = self.gated_stack.current(FEED).generation
        assert generation is not None
        return generation

    def ask_for(self, generation: int | None) -> str:
        return self.stack.started(self.stack.trigger(ROLLBACK, generation=generation, reason="the test regrets it"))

    def wait_for_question(self, run_id: str) -> str:
        """The difference, as whoever approves reads it."""
        path = f"{self._approval(run_id)}/hitlDetails"
        answer = wait_for(lambda: self._found(path), f"run [{run_id}] waits for its approval")
        return str(answer["body"])

    def _found(self, path: str) -> Any:
        answer = self.stack.ask("GET", path)
        return answer.json() if answer.ok else None

    def answer(self, run_id: str, option: str, *, user: str = "admin") -> int:
        """The status that Airflow answers with."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", f"{self._approval(run_id)}/hitlDetails", body=body, user=user).status

    def _approval(self, run_id: str) -> str:
        return f"api/v2/dags/{ROLLBACK}/dagRuns/{quote(run_id)}/taskInstances/approve_rollback/-1"

    def end_of(self, run_id: str, option: str = "") -> str:
        """The final state of a run whose question was answered so.

        It is answered again when it is asked again: Airflow takes a task for lost that is resumed before the scheduler
        has heard that it waits, as no person is quick enough to see, and runs it anew.
        """
        state: str = wait_for(lambda: self._ended(run_id) or self._answered_again(run_id, option), f"[{run_id}] ended")
        return state

    def _ended(self, run_id: str) -> str | None:
        state = self.stack.airflow.run_state(ROLLBACK, run_id)
        return state if state in ("success", "failed") else None

    def _answered_again(self, run_id: str, option: str) -> None:
        asked = self.stack.task_states(FEED, run_id, dag="rollback")["approve_rollback"] == "awaiting_input"
        if asked and option:
            self.answer(run_id, option)

    def log_of(self, run_id: str, task_id: str) -> str:
        return self.stack.failure_log(FEED, run_id, task_id, dag="rollback")


def prune(gated_stack: SoakStack, generation: int) -> None:
    """As after a week: neither in time travel nor among the kept files."""
    layout, manifest = FeedLayout(FEED), gated_stack.manifests(FEED).read(generation)
    gated_stack.store.delete_folder(layout.data_folder(manifest.attempt))
    swap_order = layout.swap_order(manifest.attempt)
    (kept,) = gated_stack.store.stat([swap_order])
    gated_stack.store.delete(swap_order, expected_generation=kept.generation)
