"""The tasks of a publish that has run send the receiver of OpenLineage events what they read and wrote."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.engine import Engine
from testkit import runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks, setup_of
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.shared.lineage_events import TASKS, Listener, expected, task_instance
from tests.shared.lineage_events import listener as listener


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
            with pytest.raises(DownstreamTasksSkipped):
                tasks.execute("check_staging")
        ti: Any = task_instance(tasks.dag, task_id)
        ti._ti_context_from_server.dag_run.conf = {"snapshot_id": "7", "reason": "once more"}
        context = tasks.context(task_id)
        ti.task = context["task"]
        context["task"].execute(context)
        listener.on_task_instance_success(None, ti)
    assert listener.lineage() == expected(setup_of(world), engine)
