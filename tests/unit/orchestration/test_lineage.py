"""What a publish's tasks send to a receiver of OpenLineage events, by the listener of Airflow's own provider."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.orchestration.shared.feed_setup import find_folders, read_feed_setup
from dedup_clone.publish.step_specs import DIRECT
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


def test_rows_that_are_streamed_into_target_lead_there(listener: Listener) -> None:
    folders = find_folders(REPOSITORY / "dags")
    setup = read_feed_setup(folders.feeds / "worked_example.yaml", folders)
    ti: Any = task_instance(dag_of(setup), "load_staging")
    ti.task.engine, ti.task.streams_into_target = Engine.CDC, True  # as after its execution
    listener.on_task_instance_success(None, ti)
    assert listener.lineage()["load_staging"][1] == expected(setup, Engine.CDC)["swap_target"][1]


def test_a_swap_of_streamed_rows_reads_no_table(listener: Listener) -> None:
    folders = find_folders(REPOSITORY / "dags")
    setup = read_feed_setup(folders.feeds / "worked_example.yaml", folders)
    ti: Any = task_instance(dag_of(setup), "swap_target")
    ti.task.engine = Engine.CDC  # as after its execution, which has rendered the parameters
    (form,) = (p for p in ti.task.configuration["query"]["queryParameters"] if p["name"] == "form")
    form["parameterValue"]["value"] = DIRECT
    listener.on_task_instance_success(None, ti)
    assert listener.lineage()["swap_target"] == (set(), expected(setup, Engine.CDC)["swap_target"][1])


def test_a_load_that_loaded_nothing_names_nothing(listener: Listener) -> None:
    """A rollback may need no load, because the swap clones staging as of an earlier time."""
    folders = find_folders(REPOSITORY / "dags")
    dag = dag_of(read_feed_setup(folders.feeds / "worked_example.yaml", folders))
    listener.on_task_instance_success(None, task_instance(dag, "load_staging"))
    assert listener.lineage() == {"load_staging": (set(), set())}
