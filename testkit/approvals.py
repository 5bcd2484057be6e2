"""Reads and answers the approvals that runs of a DAG wait for, through Airflow's REST API."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import quote

from testkit.stack_client import StackClient
from testkit.waiting import TIMEOUT_S, wait_for

# Within this time the scheduler sees that a process has ended: its loop takes one to two seconds. No request tells
# whether it has seen this.
_SCHEDULER_NOTICES_S = 4.0


@dataclass(frozen=True)
class Approvals:
    """The approvals of one task: `task_id` in the DAG `{feed}_{dag}`."""

    stack: StackClient
    feed: str
    dag: str
    task_id: str

    def wait_for_question(self, run_id: str) -> str:
        """Wait until the run waits for its approval and an answer is safe. Returns the text of the question.

        Airflow shows the question a moment before the task waits. An answer given in that moment is stored, but never
        reaches the task, and Airflow refuses all later answers. Once the task waits, its process ends. If the task is
        answered before the scheduler has seen that end, the scheduler starts the task again. The
        task then asks again, and does not see the answer that was stored before.
        """
        what = f"run [{run_id}] waits for its approval"
        since = wait_for(lambda: self._is_waiting(run_id) and time.monotonic(), what)
        wait_for(lambda: time.monotonic() - since > _SCHEDULER_NOTICES_S and self._is_waiting(run_id), what)
        return str(self.stack.ask("GET", f"{self._task_path(run_id)}/hitlDetails").json()["body"])

    def _is_waiting(self, run_id: str) -> bool:
        states = self.stack.task_states(self.feed, run_id, dag=self.dag)
        return states.get(self.task_id) == "awaiting_input"

    def answer(self, run_id: str, option: str, *, user: str = "admin") -> int:
        """Choose an option. Returns the HTTP status of Airflow's answer."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", f"{self._task_path(run_id)}/hitlDetails", body=body, user=user).status

    def _task_path(self, run_id: str) -> str:
        return f"api/v2/dags/{self.feed}_{self.dag}/dagRuns/{quote(run_id)}/taskInstances/{self.task_id}/-1"

    def wait_for_end(self, run_id: str, option: str = "", *, timeout_s: float = TIMEOUT_S) -> str:
        """Wait until the run has ended, and return its final state.

        `option`: the answer that was given, which is given again if the task asks again; empty for none. A task asks
        again if it was answered before the scheduler knew that it waits. Only a program answers so fast.
        """
        dag_id = f"{self.feed}_{self.dag}"
        state: str = wait_for(
            lambda: self._state_after_answer(dag_id, run_id, option),
            f"run [{run_id}] of [{dag_id}] has ended",
            timeout_s,
        )
        return state

    def _state_after_answer(self, dag_id: str, run_id: str, option: str) -> str | None:
        """The final state of the run; None while it runs. If the task asks again, it is answered again."""
        if state := self.stack.final_state(dag_id, run_id):
            return state
        if option and self._is_waiting(run_id):
            self.answer(run_id, option)
        return None
