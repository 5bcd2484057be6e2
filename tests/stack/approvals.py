"""Approvals that runs of a DAG wait for, read and answered through Airflow's REST API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.stack.local_stack import LocalStack, wait_for


@dataclass(frozen=True)
class Approvals:
    """Of one task: `task_id` in `{feed}_{dag}`."""

    stack: LocalStack
    feed: str
    dag: str
    task_id: str

    def wait_for_question(self, run_id: str) -> str:
        """What whoever approves reads."""
        path = f"{self._task(run_id)}/hitlDetails"
        answer = wait_for(lambda: self._found(path), f"run [{run_id}] waits for its approval")
        return str(answer["body"])

    def _found(self, path: str) -> Any:
        answer = self.stack.ask("GET", path)
        return answer.json() if answer.ok else None

    def answer(self, run_id: str, option: str, *, user: str = "admin") -> int:
        """The status that Airflow answers with."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", f"{self._task(run_id)}/hitlDetails", body=body, user=user).status

    def _task(self, run_id: str) -> str:
        return f"api/v2/dags/{self.feed}_{self.dag}/dagRuns/{quote(run_id)}/taskInstances/{self.task_id}/-1"

    def end_of(self, run_id: str, option: str = "") -> str:
        """The final state of a run whose question was answered so.

        It is answered again when it is asked again: Airflow takes a task for lost that is resumed before the scheduler
        has heard that it waits, as no person is quick enough to see, and runs it anew.
        """
        dag_id = f"{self.feed}_{self.dag}"
        state: str = wait_for(
            lambda: self.stack.final_state(dag_id, run_id) or self._answered_again(run_id, option), f"[{run_id}] ended"
        )
        return state

    def _answered_again(self, run_id: str, option: str) -> None:
        asked = self.stack.task_states(self.feed, run_id, dag=self.dag)[self.task_id] == "awaiting_input"
        if asked and option:
            self.answer(run_id, option)
