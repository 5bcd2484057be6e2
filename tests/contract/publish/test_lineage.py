"""The tasks of a publish that has run send the receiver of OpenLineage events what they read and wrote."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.publish import publish_steps
from dedup_clone.orchestration.runners import engine_dispatch
from dedup_clone.orchestration.runners.local import LocalSparkOperator
from dedup_clone.orchestration.shared import bigquery_operators
from dedup_clone.orchestration.shared.task_runtime import RESOLVE_PUBLISH
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.feed_setups import setup_of
from tests.contract.publish.client_hook import ClientHook
from tests.shared.lineage_events import TASKS, Listener, dag_of, expected, task_instance
from tests.shared.lineage_events import listener as listener


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.BIGQUERY])
def test_executed_tasks_tell_what_the_engine_of_the_run_read_and_wrote(
    world: FeedOnStandIn, listener: Listener, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    setup = setup_of(world)
    spec = world.resolve(world.land(7, [row(7, 1)]), engine=engine)
    results: dict[str, Any] = {RESOLVE_PUBLISH: to_plain(spec)}
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", lambda ti, task_ids: results[task_ids])
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", lambda ti, key, value: None)
    monkeypatch.setattr(LocalSparkOperator, "run_spark", lambda task, context: world.dedup.run(spec.request_uri))
    monkeypatch.setattr(bigquery_operators, "BigQueryHook", lambda **_: ClientHook(world))
    for module in (engine_dispatch, bigquery_operators, publish_steps):
        monkeypatch.setattr(module, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(publish_steps, "refresh_verdict", lambda setup: None)
    dag = dag_of(setup)
    for task_id in TASKS:
        if task_id == "swap_target":
            results["check_staging"] = to_plain(world.check(spec))
        ti: Any = task_instance(dag, task_id)
        context = ti.get_template_context()
        ti.task.render_template_fields(context)
        ti.task.execute(context)
        listener.on_task_instance_success(None, ti)
    assert listener.lineage() == expected(setup, engine)
