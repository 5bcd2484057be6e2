"""What a publish's tasks send to a receiver of OpenLineage events, by the listener of Airflow's own provider."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.orchestration.setup import find_folders, read_feed_setup
from testkit.feed_on_stand_in import REPOSITORY
from tests.shared.lineage_events import TASKS, Listener, dag_of, expected, task_instance
from tests.shared.lineage_events import listener as listener


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.MERGE])
def test_the_events_of_a_publish_lead_from_landing_to_target(listener: Listener, engine: Engine) -> None:
    folders = find_folders(REPOSITORY / "dags")
    setup = read_feed_setup(folders.feeds / "worked_example.yaml", folders)
    dag = dag_of(setup)
    for task_id in TASKS:
        ti: Any = task_instance(dag, task_id)
        ti.task.runs_spark, ti.task.engine = engine.runs_spark, engine  # as after its execution
        listener.on_task_instance_success(None, ti)
    assert listener.lineage() == expected(setup, engine)


def test_a_load_that_loaded_nothing_names_nothing(listener: Listener) -> None:
    """A rollback may need no load, because the swap clones staging as of an earlier time."""
    folders = find_folders(REPOSITORY / "dags")
    dag = dag_of(read_feed_setup(folders.feeds / "worked_example.yaml", folders))
    listener.on_task_instance_success(None, task_instance(dag, "load_staging"))
    assert listener.lineage() == {"load_staging": (set(), set())}
