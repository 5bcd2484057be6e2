"""The DAG runs of a local stack: their names, and the approval for which one waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from testkit.waiting import wait_for

if TYPE_CHECKING:
    from testkit.stack import Stack

OF_ALL_FEEDS = ("bootstrap", "content_audit", "erase", "rebuild", "retire")  # their forms name the feed
RUN_TIMEOUT_S = 1200.0
RUN_POLL_S = 1.0  # many tests follow runs at once, and every request takes time from the runs


def dag_id_of(feed: str, dag: str) -> str:
    """The id of the feed's DAG, or of the DAG for all feeds."""
    return f"dedup_clone_{dag}" if dag in OF_ALL_FEEDS else f"{feed}_{dag}"


@dataclass(frozen=True)
class Question:
    """The approval for which a run waits. `path`: of the question in Airflow's API. `text`: what it shows."""

    stack: Stack
    feed: str
    dag: str
    run_id: str
    task_id: str
    path: str
    text: str

    def answer(self, option: str, *, user: str = "admin") -> int:
        """Choose an option. Returns the HTTP status of Airflow's answer."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", self.path, body=body, user=user).status

    def wait_for_end(self, option: str) -> str:
        """Wait until the run has ended after the answer `option`, and return its final state.

        A task that was answered before the scheduler knew that it waits asks again, and is answered again. Only a
        program answers so fast.
        """

        def final_state() -> str | None:
            state = self.stack.final_state(dag_id_of(self.feed, self.dag), self.run_id)
            asks_again = self.stack.task_states(self.feed, self.run_id, self.dag).get(self.task_id) == "awaiting_input"
            if state is None and asks_again:
                self.answer(option)
            return state

        what = f"run [{self.run_id}] of [{self.feed}_{self.dag}] has ended"
        state: str = wait_for(final_state, what, RUN_TIMEOUT_S, poll_interval_s=RUN_POLL_S)
        return state

    def decide(self, option: str) -> str:
        """Choose an option, wait until the run has ended, and return its final state."""
        assert self.answer(option) == 200
        return self.wait_for_end(option)
