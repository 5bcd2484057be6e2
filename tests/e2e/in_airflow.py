"""What runs in the stack's Airflow for the tests: a notifier, and a task that asks Airflow about DAGs and runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import comms, task_runner

NOTIFIER = f"{__name__}.FileNotifier"
ASKING_DAG, ASKING_TASK = "ask_airflow", "ask"
RELIED_ON = ("run_id", "state", "end_date", "conf", "count", "is_paused", "dag_run")


class FileNotifier(BaseNotifier):
    """Appends each alert to a file. As every notifier, it runs in Airflow's workers and in its triggerer."""

    template_fields = ("path",)

    def __init__(self, path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path = path

    def notify(self, context: Any) -> None:
        alert = context["alert"]
        with Path(self.path).open("a") as file:
            file.write(json.dumps({"feed": alert.feed, "title": alert.title}) + "\n")


def add_asking_dag(dags: Path) -> None:
    """Write a DAG file. Its configuration are the arguments of `answers`, its result is what they return."""
    lines = (
        "from airflow.sdk import DAG, task",
        f"from {__name__} import answers",
        f"with DAG('{ASKING_DAG}', schedule=None):",
        "    @task",
        f"    def {ASKING_TASK}(**context):",
        "        return answers(**context['dag_run'].conf)",
        f"    {ASKING_TASK}()",
    )
    (dags / f"{ASKING_DAG}.py").write_text("\n".join(lines) + "\n")


def answers(asked_dag: str, asked_run: str, scheduled_dag: str) -> dict[str, Any]:
    """What Airflow answers a task about a run, by question, as far as the product relies on it.

    `scheduled_dag`: a DAG of which a scheduled run has succeeded. A test asks the double (testkit/airflow.py).
    """
    dag_id, run_id = asked_dag, asked_run
    ids, tomorrow = {"dag_id": dag_id, "run_id": run_id}, datetime.now(UTC) + timedelta(days=1)
    questions = {
        "the run": comms.GetDagRun(**ids),
        "its state": comms.GetDagRunState(**ids),
        "runs of this id": comms.GetDRCount(dag_id=dag_id, run_ids=[run_id, "none"]),
        "runs in a state": comms.GetDRCount(dag_id=dag_id, run_ids=[run_id], states=["failed", "success"]),
        "runs of no id": comms.GetDRCount(dag_id=dag_id, run_ids=["none"], states=["running"]),
        "deferred tasks": comms.GetTICount(dag_id=dag_id, run_ids=[run_id], states=["deferred"]),
        "the last one": comms.GetPreviousDagRun(dag_id=scheduled_dag, logical_date=tomorrow, state="success"),
        "none before": comms.GetPreviousDagRun(dag_id=dag_id, logical_date=tomorrow, state="success"),
        "the DAG": comms.GetDag(dag_id=dag_id),
        "no run": comms.GetDagRunState(dag_id=dag_id, run_id="none"),
        "details of no run": comms.GetDagRun(dag_id=dag_id, run_id="none"),
        "no DAG": comms.GetDag(dag_id="none"),
    }
    return {name: _answer(question) for name, question in questions.items()}


def _answer(question: Any) -> Any:
    try:
        return _described(task_runner.SUPERVISOR_COMMS.send(question))
    except AirflowRuntimeError as error:
        return [type(error.error).__name__, str(error.error.error), (error.error.detail or {}).get("status_code")]


def _described(value: Any) -> Any:
    """The value as JSON: of a model its class and the fields in RELIED_ON, of a time only its class."""
    name = type(value).__name__
    if hasattr(value, "model_fields_set"):
        fields = [field for field in RELIED_ON if hasattr(value, field)]
        return {"class": name, **{field: _described(getattr(value, field)) for field in fields}}
    return [name, None if isinstance(value, datetime) else repr(value)]
