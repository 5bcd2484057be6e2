"""Reads and answers the approvals that runs of a DAG wait for, through Airflow's REST API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from testkit.stack_client import TIMEOUT_S, StackClient, wait_for


@dataclass(frozen=True)
class Approvals:
    """The approvals of one task: `task_id` of the DAG `{feed}_{dag}`."""

    stack: StackClient
    feed: str
    dag: str
    task_id: str

    def wait_for_question(self, run_id: str) -> str:
        """Wait until the run asks for its approval, and return the text that is shown."""
        path = f"{self._task(run_id)}/hitlDetails"
        answer = wait_for(lambda: self._found(path), f"run [{run_id}] waits for its approval")
        return str(answer["body"])

    def _found(self, path: str) -> Any:
        answer = self.stack.ask("GET", path)
        return answer.json() if answer.ok else None

    def answer(self, run_id: str, option: str, *, user: str = "admin") -> int:
        """Choose an option. Returns the HTTP status of Airflow's answer."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", f"{self._task(run_id)}/hitlDetails", body=body, user=user).status

    def _task(self, run_id: str) -> str:
        return f"api/v2/dags/{self.feed}_{self.dag}/dagRuns/{quote(run_id)}/taskInstances/{self.task_id}/-1"

    def end_of(self, run_id: str, option: str = "", *, timeout_s: float = TIMEOUT_S) -> str:
        """The final state of a run whose approval was answered with `option`.

        The answer is repeated when the task asks again. Airflow starts the task again if it is answered before the
        scheduler knows that it waits, which only a test is fast enough to do.
        """
        dag_id = f"{self.feed}_{self.dag}"
        state: str = wait_for(
            lambda: self._state_after_answer(dag_id, run_id, option),
            f"run [{run_id}] of [{dag_id}] has ended",
            timeout_s,
        )
        return state

    def _state_after_answer(self, dag_id: str, run_id: str, option: str) -> str | None:
        """The final state of the run; None while it runs, after answering again if the task asks again."""
        if state := self.stack.final_state(dag_id, run_id):
            return state
        asked = self.stack.task_states(self.feed, run_id, dag=self.dag)[self.task_id] == "awaiting_input"
        if asked and option:
            self.answer(run_id, option)
        return None
