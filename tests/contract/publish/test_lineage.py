"""The tasks of a publish that has run send the receiver of OpenLineage events what they read and wrote.

The events are sent by the listener of Airflow's own provider.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.providers.openlineage.plugins.listener import OpenLineageListener
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import TIRunContext
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport

from dedup_clone.contract.engine import Engine
from dedup_clone.orchestration.setup import FeedSetup
from testkit import runs
from testkit.airflow import TaskApi, dag_run
from testkit.dag_tasks import DagTasks, setup_of
from testkit.feed_on_stand_in import FeedOnStandIn, row

NOW = datetime.now(UTC)
TASKS = ("dedup_snapshot", "load_staging", "swap_target", "commit_generation")
Lineage = dict[str, tuple[set[str], set[str]]]  # inputs and outputs of each task, as texts `namespace name`


def names(datasets: list[dict[str, Any]]) -> set[str]:
    return {f"{each['namespace']} {each['name']}" for each in datasets}


class Listener(OpenLineageListener):
    """The provider's listener, which sends events in the calling thread. `events`: those that it sent."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[dict[str, Any]] = []
        emit = lambda _, event: self.events.append(Serde.to_dict(event))  # noqa: E731
        transport = type("Recorder", (Transport,), {"kind": "recorder", "emit": emit})
        self.adapter = OpenLineageAdapter(client=OpenLineageClient(transport=transport()))

    def _execute(self, callable: Callable[[], None], callable_name: str, use_fork: bool = False) -> None:
        callable()

    def lineage(self) -> Lineage:
        """The lineage that the sent events report. Each event must be of a task that has succeeded."""
        assert {event["eventType"] for event in self.events} == {"COMPLETE"}
        return {e["job"]["name"].partition(".")[2]: (names(e["inputs"]), names(e["outputs"])) for e in self.events}


@pytest.fixture
def listener() -> Listener:
    return Listener()


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


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.BIGQUERY])
def test_executed_tasks_tell_what_the_engine_of_the_run_read_and_wrote(
    world: FeedOnStandIn, listener: Listener, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    tasks = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish")
    tasks.has_taken(runs.publish(world, world.land(7, [row(7, 1)]), engine=engine).until("resolve").plan)

    def pull(ti: RuntimeTaskInstance, task_ids: str) -> object:
        return tasks.results[task_ids, "return_value"]

    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", pull)
    for task_id in TASKS:
        if task_id == "swap_target":
            tasks.execute("check_staging")
        ti: Any = task_instance(tasks.dag, task_id)
        ti._ti_context_from_server.dag_run.conf = {"snapshot_id": "7", "reason": "once more"}
        context = tasks.context(task_id)
        ti.task = context["task"]
        context["task"].execute(context)
        listener.on_task_instance_success(None, ti)
    assert listener.lineage() == expected(setup_of(world), engine)
