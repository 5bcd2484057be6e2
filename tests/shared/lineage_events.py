"""The OpenLineage events of a publish's tasks: what they must tell, and what a listener has sent."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import TIRunContext
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.engine import Engine
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.steps import feed_dag_arguments, load_to_commit
from dedup_clone.orchestration.task_runtime import RESOLVE_PUBLISH
from testkit.airflow import LineageListener, dag_run

NOW = datetime.now(UTC)
TASKS = ("dedup_snapshot", "load_staging", "swap_target", "commit_generation")
Lineage = dict[str, tuple[set[str], set[str]]]  # inputs and outputs of each task, as texts `namespace name`


def names(datasets: list[dict[str, Any]]) -> set[str]:
    return {f"{each['namespace']} {each['name']}" for each in datasets}


class Listener(LineageListener):
    def lineage(self) -> Lineage:
        """The lineage that the sent events report. Each event must be of a task that has succeeded."""
        assert {event["eventType"] for event in self.events} == {"COMPLETE"}
        return {e["job"]["name"].partition(".")[2]: (names(e["inputs"]), names(e["outputs"])) for e in self.events}


@pytest.fixture
def listener() -> Listener:
    return Listener()


def dag_of(setup: FeedSetup) -> DAG:
    """A DAG with those tasks of a publish that send events."""
    with DAG(setup.dag_id("publish"), schedule=None, **feed_dag_arguments(setup)) as dag:
        EmptyOperator(task_id=RESOLVE_PUBLISH)
        dedup_operator(setup, task_id="dedup_snapshot", request_uri="uri")
        load_to_commit(setup)
    return dag


def task_instance(dag: DAG, task_id: str) -> RuntimeTaskInstance:
    """A task instance of a run, as Airflow's task runner passes it to the listener."""
    ids = {"dag_id": dag.dag_id, "run_id": "arrival"}
    run = dag_run(**ids, run_after=NOW, start_date=NOW)
    return RuntimeTaskInstance.model_construct(
        **ids,
        id=uuid.uuid4(),
        task_id=task_id,
        try_number=1,
        map_index=-1,
        task=dag.get_task(task_id).prepare_for_execution(),
        start_date=NOW,
        _ti_context_from_server=TIRunContext(dag_run=run, max_tries=1),
    )


def expected(setup: FeedSetup, engine: Engine) -> Lineage:
    """The lineage that the tasks must report: from landing to target."""
    tables = f"bigquery {setup.names.project}.{setup.names.dataset}"
    landing = {f"gs://{setup.deployment.landing_bucket} {setup.feed.landing.prefix}"}
    state = {f"gs://{setup.deployment.state_bucket} {setup.feed.feed}/data"}
    staging, target = {f"{tables}.{setup.feed.staging}"}, {f"{tables}.{setup.feed.target}"}
    incoming = {f"{tables}.{setup.feed.target}_incoming"}
    return {
        "dedup_snapshot": (landing, state if engine.runs_spark else incoming),
        "load_staging": (state if engine.runs_spark else incoming | target, staging),
        "swap_target": (staging, target),
        "commit_generation": (set(), target),
    }
