"""Airflow's REST API as far as the page's forms use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESULT = "{}: target would change <b>\nof a **dry run**\n\n| | |\n| --- | --- |\n| live generation | 7 \\| 8 |"

DOWN = "down"  # among the states: Airflow does not answer


@dataclass
class Api:
    """Airflow's REST API as far as the form uses it. Returns the `states` of a task one after the other.

    `tasks`: the tasks of a run that has ended; empty while it runs.

    Each test has its own run. Late requests by an earlier test's page are answered, but have no effect.
    """

    address: str = ""
    run: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)

    def routes(self) -> Any:
        from fastapi import FastAPI, HTTPException

        api = FastAPI()

        @api.post("/dags/{dag_id}/dagRuns")
        def start(dag_id: str, body: dict[str, Any]) -> dict[str, str]:
            self.asked.append({"dag_id": dag_id, **body["conf"]})
            return {"dag_run_id": f"manual__{self.run}"}

        @api.get("/dags/~/dagRuns/~/hitlDetails")
        def approvals() -> dict[str, Any]:
            return {"hitl_details": [], "total_entries": 0}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}")
        def run(dag_id: str, run_id: str) -> dict[str, Any]:
            return {"state": "success" if self.tasks or run_id != f"manual__{self.run}" else "running"}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        def tasks(dag_id: str, run_id: str) -> dict[str, Any]:
            return {"task_instances": self.tasks}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        def state(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            is_asked_now = run_id == f"manual__{self.run}"
            state = self.states.pop(0) if is_asked_now else "skipped"
            if state == DOWN:
                raise HTTPException(503)
            return {"state": state, "try_number": 2}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/2")
        def log(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            return {"content": [{"event": "begins"}, *self.log]}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value")
        def result(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            return {"value": {"text": RESULT.format(task_id)}}

        return api
